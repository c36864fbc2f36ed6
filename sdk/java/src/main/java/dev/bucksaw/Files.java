package dev.bucksaw;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.List;

/** Files with secrets and certificates. */
final class Files {
  private Files() {}

  /**
   * The content of a regular file; another kind could block for ever.
   *
   * @throws IOException with a message that names the file, and has nothing of its content
   */
  static byte[] read(Path file, int bytesMax) throws IOException {
    if (!attributes(file).isRegularFile()) {
      throw new IOException(file + " is not a regular file");
    }
    try (InputStream in = java.nio.file.Files.newInputStream(file)) {
      byte[] content = in.readNBytes(bytesMax + 1);
      if (content.length > bytesMax) {
        throw new IOException(file + " is longer than " + bytesMax + " bytes");
      }
      return content;
    }
  }

  /** What differs after a change of the file. */
  static Object state(Path file) throws IOException {
    BasicFileAttributes found = attributes(file);
    // The system may have no number of a file.
    return List.of(
        found.lastModifiedTime(), found.size(), found.fileKey() == null ? "" : found.fileKey());
  }

  private static BasicFileAttributes attributes(Path file) throws IOException {
    try {
      return java.nio.file.Files.readAttributes(file, BasicFileAttributes.class);
    } catch (NoSuchFileException e) {
      throw new IOException(file + " does not exist", e);
    }
  }
}
