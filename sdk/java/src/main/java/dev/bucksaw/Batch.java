package dev.bucksaw;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.util.ArrayList;
import java.util.List;
import java.util.zip.Deflater;
import java.util.zip.GZIPOutputStream;

/**
 * Encoded lines that are sent together.
 *
 * <p>The lock of {@link Buffer} guards it until it is sealed. Afterwards only the sender uses it.
 */
final class Batch {
  /** Bodies of at least this many bytes are compressed. */
  static final int COMPRESSED_BYTES_MIN = 1024;

  // Blocks instead of one growing array: an append never copies earlier lines.
  private static final int BLOCK_BYTES = 64 << 10;

  private final long createdMillis;
  private final long createdNanos;
  private final List<byte[]> blocks = new ArrayList<>();
  private int filled = BLOCK_BYTES;
  private int size;
  private int records;
  private String key;
  private byte[] body;
  private boolean compressed;

  Batch(long createdMillis, long createdNanos) {
    this.createdMillis = createdMillis;
    this.createdNanos = createdNanos;
  }

  void append(byte[] line, int length) {
    int copied = 0;
    while (copied < length) {
      if (filled == BLOCK_BYTES) {
        blocks.add(new byte[BLOCK_BYTES]);
        filled = 0;
      }
      int part = Math.min(length - copied, BLOCK_BYTES - filled);
      System.arraycopy(line, copied, blocks.get(blocks.size() - 1), filled, part);
      filled += part;
      copied += part;
    }
    size += length;
    records++;
  }

  long createdMillis() {
    return createdMillis;
  }

  long createdNanos() {
    return createdNanos;
  }

  /** Number of bytes of the lines. */
  int size() {
    return size;
  }

  int records() {
    return records;
  }

  boolean compressed() {
    return compressed;
  }

  String key() {
    return key;
  }

  /** The body of each attempt; {@link #prepare} makes it. */
  byte[] body() {
    return body;
  }

  /** Makes the key and the body, once. Every attempt sends the same ones. */
  void prepare(Keys keys) throws IOException {
    if (body != null) {
      return;
    }
    if (key == null) {
      // The time of the key is that of the batch. Its random bytes are read here, outside the lock.
      key = keys.next(createdMillis);
    }
    boolean compress = size >= COMPRESSED_BYTES_MIN;
    ByteArrayOutputStream out = new ByteArrayOutputStream(compress ? size / 4 + 512 : size);
    try (OutputStream sink = compress ? new Gzip(out) : out) {
      for (int i = 0; i < blocks.size(); i++) {
        sink.write(blocks.get(i), 0, i == blocks.size() - 1 ? filled : BLOCK_BYTES);
      }
    }
    body = out.toByteArray();
    compressed = compress;
    blocks.clear();
  }

  /** Compresses with the fastest level: the processor belongs to the program that logs. */
  private static final class Gzip extends GZIPOutputStream {
    Gzip(OutputStream out) throws IOException {
      super(out, 8192);
      def.setLevel(Deflater.BEST_SPEED);
    }
  }
}
