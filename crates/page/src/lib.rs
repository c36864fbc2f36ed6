//! The page: the files that a browser is given, as they were built from `ui/`, plain and packed.
//!
//! They are part of the program, so that one file is all there is to install, and they are packed when it is built: no
//! request is worth packing them again. Where the page could not be built there is a plain one that says why.
//!
//! What it does not do: it speaks no HTTP. `api` says who gets which form, and how long it may be kept.
//!
//! ```
//! let index = bucksaw_page::find("index.html").unwrap();
//! assert!(index.plain.starts_with(b"<!doctype html>"));
//! assert_eq!(index.content_type(), "text/html; charset=utf-8");
//! ```

/// A file of the page.
#[derive(Clone, Copy, Debug)]
pub struct File {
    /// Where it lies, without a slash in front: `assets/index-Bx2k.js`.
    pub path: &'static str,
    /// Its bytes.
    pub plain: &'static [u8],
    /// The same, packed with brotli, where that makes them fewer.
    pub brotli: Option<&'static [u8]>,
    /// The same, packed with gzip, where that makes them fewer.
    pub gzip: Option<&'static [u8]>,
}

/// All of them, by path.
static FILES: &[File] = include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// The file at a path, which has no slash in front.
#[must_use]
pub fn find(path: &str) -> Option<&'static File> {
    FILES.iter().find(|file| file.path == path)
}

impl File {
    /// The media type, by the ending of the path.
    #[must_use]
    pub fn content_type(&self) -> &'static str {
        match self.path.rsplit('.').next().unwrap_or_default() {
            "html" => "text/html; charset=utf-8",
            "js" => "text/javascript; charset=utf-8",
            "css" => "text/css; charset=utf-8",
            "svg" => "image/svg+xml",
            _ => "application/octet-stream",
        }
    }

    /// Whether its path changes with its bytes, so that it may be kept for ever.
    #[must_use]
    pub fn is_hashed(&self) -> bool {
        self.path.starts_with("assets/")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_has_a_type() {
        assert!(find("index.html").is_some() && find("/index.html").is_none());
        for file in FILES {
            assert_ne!(file.content_type(), "application/octet-stream", "{}", file.path);
            for packed in [file.brotli, file.gzip].into_iter().flatten() {
                assert!(!packed.is_empty() && packed.len() < file.plain.len(), "{}", file.path);
            }
        }
    }
}
