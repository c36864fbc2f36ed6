//! Builds the page in `ui/` with npm, and generates the table of its files that `src/lib.rs` includes.
//!
//! Without npm, or with `BUCKSAW_UI=off`, it warns and embeds a small page that explains how to build the real one, so
//! that a node can be built with Rust alone. If npm is installed, a failing build is an error.
#![expect(clippy::disallowed_methods, reason = "a build script reads and writes real files")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

/// The inputs of the build in `ui/`. Changes elsewhere, such as in tests, do not rebuild it.
const SOURCES: [&str; 8] =
    ["src", "public", "build", "index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts"];

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-env-changed=BUCKSAW_UI");
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let ui = here.join("../../ui");
    for source in SOURCES {
        println!("cargo::rerun-if-changed={}", ui.join(source).display());
    }
    let page = out.join("page");
    let dir = match check_npm() {
        Ok(()) => {
            build(&ui, &page)?;
            page
        }
        Err(why) => {
            println!("cargo::warning={why}: the node will serve a plain page instead of the web page");
            here.join("without")
        }
    };
    fs::write(out.join("files.rs"), file_table(&dir)?)
}

/// Whether to build the page, or the reason not to.
fn check_npm() -> Result<(), &'static str> {
    if env::var_os("BUCKSAW_UI").is_some_and(|value| value == "off") {
        return Err("BUCKSAW_UI is off");
    }
    let npm = Command::new("npm").arg("--version").output();
    if npm.is_ok_and(|npm| npm.status.success()) { Ok(()) } else { Err("npm was not found") }
}

fn build(ui: &Path, page: &Path) -> io::Result<()> {
    // npm copies the lock file to the installed packages. Install if the copy is missing or older.
    let installed = fs::metadata(ui.join("node_modules/.package-lock.json")).and_then(|file| file.modified());
    let locked = fs::metadata(ui.join("package-lock.json")).and_then(|file| file.modified())?;
    if installed.map_or(true, |installed| installed < locked) {
        run(Command::new("npm").args(["ci", "--no-audit", "--no-fund"]).current_dir(ui))?;
    }
    run(Command::new("npm").args(["run", "build", "--", "--emptyOutDir", "--outDir"]).arg(page).current_dir(ui))
}

fn run(command: &mut Command) -> io::Result<()> {
    // Downloads packages only; tests use the browser of the system.
    let output = command.env("PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD", "1").output()?;
    if output.status.success() {
        return Ok(());
    }
    let output_text = [output.stdout, output.stderr].concat();
    Err(io::Error::other(format!("{command:?} failed:\n{}", String::from_utf8_lossy(&output_text))))
}

/// A Rust expression: the files in `dir` with their compressed forms, `x.br` and `x.gz` beside `x`.
fn file_table(dir: &Path) -> io::Result<String> {
    let mut files = Vec::new();
    collect_files(dir, &mut files)?;
    files.sort();
    let packed = |file: &Path, ending: &str| {
        let name = PathBuf::from(format!("{}.{ending}", file.display()));
        if name.is_file() { format!("Some(include_bytes!({name:?}))") } else { "None".to_owned() }
    };
    let mut table = String::from("&[\n");
    for file in files.iter().filter(|file| file.extension().is_none_or(|ending| ending != "br" && ending != "gz")) {
        let path = file.strip_prefix(dir).unwrap_or(file).to_string_lossy().replace('\\', "/");
        // Writing to memory cannot fail.
        let _ = writeln!(
            table,
            "    PageFile {{ path: {path:?}, plain: include_bytes!({file:?}), brotli: {}, gzip: {} }},",
            packed(file, "br"),
            packed(file, "gz")
        );
    }
    Ok(table + "]\n")
}

fn collect_files(dir: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() { collect_files(&path, files)? } else { files.push(path) }
    }
    Ok(())
}
