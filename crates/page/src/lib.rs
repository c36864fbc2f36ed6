//! The files of the web page, built from `ui/`, plain and compressed.
//!
//! They are embedded in the program, so that it is a single file to install, and compressed at build time. If the page
//! was not built, a plain page explains why. `api` serves the files and sets the cache headers.
//!
//! ```
//! let index = bucksaw_page::find("index.html").unwrap();
//! assert!(index.plain.starts_with(b"<!doctype html>"));
//! assert_eq!(index.content_type(), "text/html; charset=utf-8");
//! ```

/// A file of the page.
#[derive(Clone, Copy, Debug)]
pub struct PageFile {
    /// Its path without a leading slash: `assets/index-Bx2k.js`.
    pub path: &'static str,
    /// Its bytes.
    pub plain: &'static [u8],
    /// Its bytes compressed with brotli, if smaller.
    pub brotli: Option<&'static [u8]>,
    /// Its bytes compressed with gzip, if smaller.
    pub gzip: Option<&'static [u8]>,
}

/// All files, sorted by path.
static FILES: &[PageFile] = include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// The file at a path without a leading slash.
pub fn find(path: &str) -> Option<&'static PageFile> {
    FILES.iter().find(|file| file.path == path)
}

impl PageFile {
    /// The media type, by the file name extension.
    pub fn content_type(&self) -> &'static str {
        match self.path.rsplit('.').next().unwrap_or_default() {
            "html" => "text/html; charset=utf-8",
            "js" => "text/javascript; charset=utf-8",
            "css" => "text/css; charset=utf-8",
            "svg" => "image/svg+xml",
            _ => "application/octet-stream",
        }
    }

    /// Whether its path changes with its bytes, so that it may be cached for ever.
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
