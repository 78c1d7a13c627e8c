//! Coverage of C libraries, which the compiler of Rust does not see.

fn main() {
    println!("cargo:rerun-if-changed=counters.c");
    cc::Build::new().file("counters.c").link_lib_modifier("+whole-archive").compile("counters");
    // libFuzzer has an empty function of the same name; the one that is linked first counts.
    println!("cargo:rustc-link-arg-bins=-Wl,--allow-multiple-definition");
}
