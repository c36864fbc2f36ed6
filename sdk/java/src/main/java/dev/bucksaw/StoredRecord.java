package dev.bucksaw;

import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.Map;
import java.util.Optional;

/** A record of an answer. It does not change. */
public final class StoredRecord implements TailItem {
  private final String id;
  private final Instant time;
  private final Map<String, String> labels;
  private final Map<String, String> attributes;
  private final Map<String, byte[]> binaryAttributes;
  private final String line;
  private final byte[] binaryLine;
  private final boolean cut;
  private final boolean unterminated;

  /**
   * Texts that are not UTF-8 are given as bytes.
   *
   * @param attributes all attributes, as text
   * @param binaryAttributes those that are not UTF-8
   * @param binaryLine the line if it is not UTF-8, else null
   */
  StoredRecord(
      String id,
      Instant time,
      Map<String, String> labels,
      Map<String, String> attributes,
      Map<String, byte[]> binaryAttributes,
      String line,
      byte[] binaryLine,
      boolean cut,
      boolean unterminated) {
    this.id = id;
    this.time = time;
    this.labels = labels;
    this.attributes = attributes;
    this.binaryAttributes = binaryAttributes;
    this.line = line;
    this.binaryLine = binaryLine;
    this.cut = cut;
    this.unterminated = unterminated;
  }

  /**
   * The id, which no other record has.
   *
   * @return the id
   */
  public String id() {
    return id;
  }

  /**
   * The time of the event.
   *
   * @return the time
   */
  public Instant time() {
    return time;
  }

  /**
   * The labels of the stream.
   *
   * @return an unmodifiable map, in the order of the answer
   */
  public Map<String, String> labels() {
    return labels;
  }

  /**
   * The attributes. Bytes that are not UTF-8 are U+FFFD.
   *
   * @return an unmodifiable map, in the order of the answer
   */
  public Map<String, String> attributes() {
    return attributes;
  }

  /**
   * The value of an attribute, byte for byte.
   *
   * @param name name of the attribute
   * @return the bytes, if the record has the attribute
   */
  public Optional<byte[]> attributeBytes(String name) {
    byte[] binary = binaryAttributes.get(name);
    if (binary != null) {
      return Optional.of(binary.clone());
    }
    return Optional.ofNullable(attributes.get(name))
        .map(text -> text.getBytes(StandardCharsets.UTF_8));
  }

  /**
   * The line. Bytes that are not UTF-8 are U+FFFD.
   *
   * @return the line as text
   */
  public String line() {
    return line;
  }

  /**
   * The line, byte for byte.
   *
   * @return the bytes
   */
  public byte[] lineBytes() {
    return binaryLine == null ? line.getBytes(StandardCharsets.UTF_8) : binaryLine.clone();
  }

  /**
   * Whether the record was cut for its length and continues in the next one.
   *
   * @return whether it was cut
   */
  public boolean cut() {
    return cut;
  }

  /**
   * Whether this is the last record of a source that ended without a line end.
   *
   * @return whether the line end is missing
   */
  public boolean unterminated() {
    return unterminated;
  }

  @Override
  public String toString() {
    return time + " " + line;
  }
}
