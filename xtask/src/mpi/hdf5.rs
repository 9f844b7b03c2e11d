//! HDF5 1.14 with parallel I/O, built once for an MPI that no package of it is for.
//!
//! Debian's is 1.10, which uses MPI-IO in other ways. The source is that of a crate, so that no
//! other registry is needed; CMake and Ninja come from PyPI. The build takes about two minutes of
//! processor time, and what is not needed afterwards is removed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Places;
use super::library::Mpi;
use super::python;
use crate::open_command;

/// What client programs that need it call it.
pub(super) const NAME: &str = "HDF5 1.14";

/// The crate whose source it is, and the version: HDF5 1.14.6.
const CRATE: (&str, &str) = ("hdf5-metno-src", "0.9.5");
const TOOLS: [&str; 2] = ["cmake==4.4.4", "ninja==1.13.2"];

/// Everything that a program in C with parallel I/O does not need is left out.
const OFF: [&str; 10] = [
    "BUILD_STATIC_LIBS",
    "BUILD_TESTING",
    "HDF5_BUILD_CPP_LIB",
    "HDF5_BUILD_EXAMPLES",
    "HDF5_BUILD_HL_LIB",
    "HDF5_BUILD_TOOLS",
    "HDF5_BUILD_UTILS",
    "HDF5_ENABLE_NONSTANDARD_FEATURE_FLOAT16",
    "HDF5_ENABLE_SZIP_SUPPORT",
    "HDF5_ENABLE_Z_LIB_SUPPORT",
];

/// Builds it unless it is there; the outcome is its prefix.
pub(super) fn build(places: &Places, mpi: &Mpi) -> Result<PathBuf, String> {
    let directory = places.mpi.join("hdf5").join(mpi.name);
    let prefix = directory.join("prefix");
    let of = format!("{} {} {} {}", CRATE.0, CRATE.1, TOOLS.join(" "), mpi.mpicc.display());
    python::made_once(&directory, &of, || {
        println!("building {NAME} for {} in {}, once", mpi.name, directory.display());
        let source = source(&directory)?;
        let tools = python::tools(&directory.join("tools"), &TOOLS)?;
        compile(mpi, &source, &tools, &prefix)?;
        for name in ["fetched", "tools", "build"] {
            super::clients::remove(&directory.join(name))?;
        }
        Ok(())
    })?;
    Ok(prefix)
}

/// Words for the compiler of a program that uses it.
pub(super) fn link_words(prefix: &Path) -> [String; 4] {
    let (include, lib) = (prefix.join("include"), prefix.join("lib"));
    let (include, lib) = (include.display(), lib.display());
    [format!("-I{include}"), format!("-L{lib}"), "-lhdf5".into(), format!("-Wl,-rpath,{lib}")]
}

/// Fetches the source: that of the only dependency of a package without any code.
fn source(directory: &Path) -> Result<PathBuf, String> {
    let package = directory.join("fetched");
    let (name, version) = CRATE;
    let manifest = format!(
        "[package]\nname = \"fetched\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
         [dependencies]\n{name} = \"={version}\"\n\n[workspace]\n"
    );
    let failed = |error| format!("cannot write in {}: {error}", package.display());
    fs::create_dir_all(package.join("src")).map_err(failed)?;
    fs::write(package.join("Cargo.toml"), manifest).map_err(failed)?;
    fs::write(package.join("src/lib.rs"), "").map_err(failed)?;
    open_command::cargo(&["vendor", "--no-delete"], &package)?;
    Ok(package.join("vendor").join(name).join("ext/hdf5"))
}

fn compile(mpi: &Mpi, source: &Path, tools: &Path, prefix: &Path) -> Result<(), String> {
    let build = prefix.with_file_name("build");
    let mut configure = Command::new(tools.join("cmake"));
    configure.args(["-G", "Ninja", "-S"]).arg(source).arg("-B").arg(&build);
    let define = |name: &str, value: &Path| format!("-D{name}={}", value.display());
    configure.arg(define("CMAKE_MAKE_PROGRAM", &tools.join("ninja")));
    configure.arg(define("MPI_C_COMPILER", &mpi.mpicc));
    configure.arg(define("CMAKE_INSTALL_PREFIX", prefix));
    configure.args(["-DHDF5_ENABLE_PARALLEL=ON", "-DBUILD_SHARED_LIBS=ON"]);
    // Its speed does not matter here; that of the build does.
    configure.args(["-DCMAKE_BUILD_TYPE=None", "-DCMAKE_C_FLAGS=-O0 -w", "-DHDF5_NO_PACKAGES=ON"]);
    configure.args(OFF.map(|name| format!("-D{name}=OFF")));
    let mut install = Command::new(tools.join("cmake"));
    install.arg("--build").arg(&build).args(["--target", "install"]);
    for command in [&mut configure, &mut install] {
        let ended = open_command::run(command)?;
        if !ended.status.success() {
            return Err(format!("cannot build {NAME}\n{}{}", ended.errors, ended.status));
        }
    }
    Ok(())
}
