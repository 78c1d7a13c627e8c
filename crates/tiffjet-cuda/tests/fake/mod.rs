//! A driver without a GPU: `kernels/emulate/fakecuda.cpp`, built once, and this test binary run again in front of it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};

use tiffjet::{Error, Image, ReadOptions, Report, Window};
use tiffjet_cuda::Cuda;

/// The sources of kernels, by the names that `fakekernels.cpp` knows.
const SOURCES: [&str; 14] = [
    "PLACE",
    "STATUS",
    "SPREAD",
    "PACKBITS",
    "LZW",
    "DEFLATE",
    "ZSTD",
    "PACK",
    "FRAME",
    "PACKBITS_ENCODE",
    "LZW_ENCODE",
    "REDUCE",
    "ZSTD_ENCODE",
    "DEFLATE_ENCODE",
];

/// Libraries beside the driver, and their sources.
const LIBRARIES: [(&str, &str); 3] = [
    ("libnvjpeg2k.so.0", "fakenvjpeg2k.cpp"),
    ("libnvjpeg.so.13", "fakenvjpeg.cpp"),
    ("libcufile.so.0", "fakecufile.cpp"),
];

/// A folder with the driver and all libraries.
#[allow(dead_code)] // not every test binary
pub fn libraries() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let driver = folder(false);
        let folder = driver.with_file_name(format!("fakelibs-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::copy(driver.join("libcuda.so.1"), folder.join("libcuda.so.1")).expect("a copy");
        for (library, source) in LIBRARIES {
            let mut link = compiler();
            link.args(["-std=c++17", "-O2", "-fPIC", "-shared", "-Wl,-rpath,$ORIGIN", "-o"]).arg(folder.join(library));
            run(link.arg(emulate(source)).arg(folder.join("libcuda.so.1")));
        }
        folder
    })
}

/// A folder with a `libcuda.so.1`; `without_launch` leaves a symbol out.
pub fn folder(without_launch: bool) -> &'static Path {
    static WHOLE: OnceLock<PathBuf> = OnceLock::new();
    static PART: OnceLock<PathBuf> = OnceLock::new();
    let cell = if without_launch { &PART } else { &WHOLE };
    cell.get_or_init(|| build(without_launch))
}

fn build(without_launch: bool) -> PathBuf {
    // Test binaries run side by side: each has its own.
    let name = if without_launch { "fakecuda-part" } else { "fakecuda" };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let mut objects = Vec::new();
    if !without_launch {
        objects.extend(SOURCES.map(|source| (format!("-DFAKE_{source}"), "fakekernels.cpp", source)));
    }
    let define = if without_launch { "-DFAKECUDA_WITHOUT_LAUNCH" } else { "-DFAKECUDA" };
    objects.push((define.to_owned(), "fakecuda.cpp", "DRIVER"));
    let mut link = compiler();
    for (define, source, name) in &objects {
        let object = folder.join(format!("{name}.o"));
        run(compiler()
            .args(["-std=c++17", "-O2", "-ffp-contract=off", "-fPIC", "-c", define])
            .arg(emulate(source))
            .arg("-o")
            .arg(&object));
        link.arg(object);
    }
    run(link.args(["-shared", "-Wl,-soname,libcuda.so.1", "-o"]).arg(folder.join("libcuda.so.1")));
    folder
}

/// The same folder with an nvCOMP of this major version beside the driver.
#[allow(dead_code)] // not every test needs one
pub fn with_nvcomp(major: u32) -> PathBuf {
    let driver = folder(false);
    let folder = driver.with_file_name(format!("fakenvcomp{major}-{}", std::process::id()));
    static BUILT: Mutex<Vec<u32>> = Mutex::new(Vec::new());
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    if !built.contains(&major) {
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::copy(driver.join("libcuda.so.1"), folder.join("libcuda.so.1")).expect("a copy");
        let version = format!("-DFAKE_MAJOR={major}");
        let library = folder.join(format!("libnvcomp.so.{major}"));
        let build = ["-std=c++17", "-O2", "-fPIC", "-shared", &version];
        run(compiler().args(build).arg(emulate("fakenvcomp.cpp")).arg("-o").arg(library).arg("-ldl"));
        built.push(major);
    }
    folder
}

fn emulate(source: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels/emulate").join(source)
}

fn compiler() -> Command {
    Command::new(std::env::var_os("CXX").unwrap_or_else(|| "c++".into()))
}

fn run(command: &mut Command) {
    let output = command.output().expect("the C++ compiler runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Runs an ignored test of this binary in a process of its own, with the fake driver and these variables.
#[allow(dead_code)] // not every test binary
pub fn child(test: &str, variables: &[(&str, &str)]) {
    child_in(folder(false), test, variables);
}

/// The same with the libraries of a folder.
pub fn child_in(folder: &Path, test: &str, variables: &[(&str, &str)]) {
    let program = std::env::current_exe().expect("this binary");
    let output = Command::new(program)
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env("TIFFJET_CUDA_LIBS", folder)
        .envs(variables.iter().copied())
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{test} with {variables:?}: {}\n{text}", output.status);
    assert!(text.contains("1 passed"), "{test} did not run:\n{text}");
}

/// The same with all libraries; gives what they wrote on their one timeline.
#[allow(dead_code)] // not every test binary
pub fn timeline(test: &str, variables: &[(&str, &str)]) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("timeline");
    let mut all = vec![("FAKECUDA_TIMELINE", path.to_str().expect("a plain name"))];
    all.extend(variables);
    child_in(libraries(), test, &all);
    std::fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// How many lines of a timeline begin with this.
#[allow(dead_code)] // as above
pub fn count(timeline: &[String], word: &str) -> usize {
    timeline.iter().filter(|line| line.starts_with(word)).count()
}

/// All pixels of an image by way of the device, on the host.
#[allow(dead_code)] // as above
pub fn read(image: &Image, cuda: &Cuda, options: &ReadOptions) -> Result<(Vec<u8>, Report), Error> {
    let tensor = image.read_with(cuda, &Window::default(), options)?;
    let mut bytes = vec![0; tensor.storage().length()];
    tensor.storage().to_host(&mut bytes)?;
    Ok((bytes, tensor.report))
}
