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

  // Blocks instead of one growing array: an append never copies earlier lines. Each block is as
  // large as all before it, within these bounds, so that small batches take little memory.
  private static final int BLOCK_BYTES_MIN = 512;
  private static final int BLOCK_BYTES_MAX = 64 << 10;

  private final long createdMillis;
  private final long createdNanos;
  private final List<byte[]> blocks = new ArrayList<>();
  private byte[] last = new byte[0];
  private int filled;
  private int size;
  private int records;
  private boolean finished;
  private String key;
  private byte[] body;
  private boolean compressed;

  Batch(long createdMillis, long createdNanos) {
    this.createdMillis = createdMillis;
    this.createdNanos = createdNanos;
  }

  void append(byte[] line, int length) {
    int part = Math.min(length, last.length - filled);
    int rest = length - part;
    byte[] next = null;
    if (rest > 0) {
      // Allocate first: without memory for the whole line, nothing of it is added.
      next = new byte[Math.max(rest, Math.max(BLOCK_BYTES_MIN, Math.min(BLOCK_BYTES_MAX, size)))];
      blocks.add(next);
    }
    System.arraycopy(line, 0, last, filled, part);
    filled += part;
    if (next != null) {
      System.arraycopy(line, part, next, 0, rest);
      last = next;
      filled = rest;
    }
    size += length;
    records++;
  }

  /** Marks the batch as acknowledged or dropped. Returns false if it was before. */
  boolean finish() {
    boolean first = !finished;
    finished = true;
    return first;
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
      for (byte[] block : blocks) {
        sink.write(block, 0, block == last ? filled : block.length);
      }
    }
    body = out.toByteArray();
    compressed = compress;
    blocks.clear();
    last = null;
  }

  /** Compresses with the fastest level: the processor belongs to the program that logs. */
  private static final class Gzip extends GZIPOutputStream {
    Gzip(OutputStream out) throws IOException {
      super(out, 8192);
      def.setLevel(Deflater.BEST_SPEED);
    }
  }
}
