//! Where libraries are looked for.

#![allow(unsafe_code)] // opens libraries and takes symbols from them

use std::ffi::{c_int, c_void};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// A folder with CUDA libraries that goes before all others.
pub const OVERRIDE: &str = "TIFFJET_CUDA_LIBS";

/// Where toolkits install themselves.
const TOOLKITS: [&str; 2] = ["/usr/local/cuda/lib64", "/usr/local/cuda/targets/x86_64-linux/lib"];

/// A library as it may be called and where wheels put it.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// For people.
    pub name: &'static str,
    /// The best version first.
    pub sonames: &'static [&'static str],
    /// Folders inside `site-packages`.
    pub wheels: &'static [&'static str],
    /// What it is good for.
    pub enables: &'static str,
    /// What to install.
    pub hint: &'static str,
}

/// Why a library can't be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missing {
    /// Nowhere.
    Absent {
        /// The library.
        name: &'static str,
        /// What to install.
        hint: &'static str,
    },
    /// There, but not all of it.
    Symbol {
        /// The library.
        name: &'static str,
        /// Which one was found.
        path: PathBuf,
        /// What it lacks.
        symbol: &'static str,
        /// What to install.
        hint: &'static str,
    },
    /// There, but of a version whose functions are not known.
    Version {
        /// The library.
        name: &'static str,
        /// Which one was found.
        path: PathBuf,
        /// Its version.
        version: String,
        /// What to install.
        hint: &'static str,
    },
}

impl Missing {
    /// The library, and what is wrong with the one that was found.
    pub fn library(&self) -> String {
        match self {
            Self::Absent { name, .. } => (*name).to_owned(),
            Self::Symbol { name, path, symbol, .. } => format!("{name} ({} has no {symbol})", path.display()),
            Self::Version { name, path, version, .. } => format!("{name} ({} is version {version})", path.display()),
        }
    }

    /// What to install.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Absent { hint, .. } | Self::Symbol { hint, .. } | Self::Version { hint, .. } => hint,
        }
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: not available ({})", self.library(), self.hint())
    }
}

static SITE_PACKAGES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Folders of Python packages, whose `nvidia` wheels bring libraries. Must be said before a library is first asked for.
pub fn look_in_site_packages(folders: impl IntoIterator<Item = PathBuf>) {
    SITE_PACKAGES.lock().unwrap_or_else(PoisonError::into_inner).extend(folders);
}

/// An open library. It stays open as long as the process lives: its functions are handed out.
#[derive(Debug)]
pub struct Library {
    library: libloading::Library,
    wanted: Wanted,
    path: PathBuf,
}

impl Library {
    /// The first one that opens: the override, wheels, the loader's own search, toolkits.
    pub fn open(wanted: Wanted) -> Result<Self, Missing> {
        candidates(wanted)
            .into_iter()
            .find_map(|path| {
                // SAFETY: the initialisers of CUDA's libraries may be run at any time; the name is a well-known one.
                let library = unsafe { libloading::Library::new(&path) }.ok()?;
                Some(Self { library, wanted, path })
            })
            .ok_or(Missing::Absent { name: wanted.name, hint: wanted.hint })
    }

    /// Where it was found; a bare name when the loader knew it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The address of a symbol.
    pub fn symbol(&self, name: &'static str) -> Result<*mut c_void, Missing> {
        // SAFETY: as a plain pointer a symbol has any type; who calls it says which.
        let symbol = unsafe { self.library.get::<*mut c_void>(name.as_bytes()) };
        symbol.ok().map(|symbol| *symbol).filter(|address| !address.is_null()).ok_or_else(|| Missing::Symbol {
            name: self.wanted.name,
            path: self.path.clone(),
            symbol: name,
            hint: self.wanted.hint,
        })
    }

    /// This version of it can't be used.
    pub fn refuse(&self, version: impl fmt::Display) -> Missing {
        let version = version.to_string();
        Missing::Version { name: self.wanted.name, path: self.path.clone(), version, hint: self.wanted.hint }
    }
}

fn candidates(wanted: Wanted) -> Vec<PathBuf> {
    let all = |folder: &Path| wanted.sonames.iter().map(|name| folder.join(name)).collect::<Vec<_>>();
    let mut paths = Vec::new();
    if let Some(folder) = std::env::var_os(OVERRIDE) {
        paths.extend(all(Path::new(&folder)));
    }
    for site in SITE_PACKAGES.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        paths.extend(wanted.wheels.iter().flat_map(|folder| all(&site.join(folder))));
    }
    paths.extend(wanted.sonames.iter().map(PathBuf::from));
    paths.extend(TOOLKITS.iter().flat_map(|folder| all(Path::new(folder))));
    paths
}

/// A version, as several libraries tell theirs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// What the same names mean may change with it.
    pub major: c_int,
    /// What there is grows with it.
    pub minor: c_int,
    patch: c_int,
}

impl Version {
    /// Asks for its parts one by one; one that is not told is -1.
    ///
    /// # Safety
    /// The function must write one number for the numbers 0, 1 and 2.
    pub unsafe fn ask(property: unsafe extern "C" fn(c_int, *mut c_int) -> c_int) -> Self {
        let part = |which: c_int| {
            let mut value = 0;
            // SAFETY: as the caller says.
            let status = unsafe { property(which, &mut value) };
            if status == 0 { value } else { -1 }
        };
        Self { major: part(0), minor: part(1), patch: part(2) }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// A struct of functions of a library, and how to load it.
macro_rules! functions {
    ($(#[$meta:meta])* $vis:vis struct $name:ident { $(fn $f:ident($($a:ty),* $(,)?) -> $r:ty;)* }) => {
        $(#[$meta])*
        #[allow(non_snake_case)]
        $vis struct $name { $($f: unsafe extern "C" fn($($a),*) -> $r,)* }

        impl $name {
            /// Takes every function, or names the first that is missing.
            ///
            /// # Safety
            /// The functions of the library must have these types.
            unsafe fn load(library: &$crate::ffi::load::Library) -> Result<Self, $crate::ffi::load::Missing> {
                Ok(Self {
                    $($f: {
                        let symbol = library.symbol(stringify!($f))?;
                        // SAFETY: the caller says that this is the type of the function.
                        unsafe { std::mem::transmute::<*mut std::ffi::c_void, unsafe extern "C" fn($($a),*) -> $r>(symbol) }
                    },)*
                })
            }
        }
    };
}
pub(super) use functions;

#[cfg(test)]
mod tests {
    use super::*;

    const NOWHERE: Wanted = Wanted {
        name: "nothing",
        sonames: &["libtiffjet-is-not-there.so.6", "libtiffjet-is-not-there.so.5"],
        wheels: &["nvidia/nothing/lib"],
        enables: "",
        hint: "install something",
    };

    #[test]
    fn what_is_not_there_is_a_value_with_a_hint() {
        let missing = Library::open(NOWHERE).unwrap_err();
        assert_eq!(missing.to_string(), "nothing: not available (install something)");
    }

    #[test]
    fn wheels_go_before_the_loader_and_new_versions_before_old() {
        look_in_site_packages([PathBuf::from("/site")]);
        let paths = candidates(NOWHERE);
        let place = |path: &str| paths.iter().position(|p| p == Path::new(path)).unwrap();
        let wheel = place("/site/nvidia/nothing/lib/libtiffjet-is-not-there.so.6");
        assert!(wheel < place("/site/nvidia/nothing/lib/libtiffjet-is-not-there.so.5"));
        assert!(wheel < place("libtiffjet-is-not-there.so.6"));
    }
}
