package dev.bucksaw;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.function.Executable;

/** The vectors that all SDKs share, but those of answers. */
class VectorsTest {
  @TestFactory
  Stream<DynamicTest> records() throws IOException {
    return Tree.maps(Tree.vectors("records.json")).stream()
        .map(v -> DynamicTest.dynamicTest((String) v.get("name"), () -> record(v)));
  }

  private static void record(Map<String, Object> vector) throws IOException {
    BigInteger[] time =
        new BigInteger((String) vector.get("time_unix_nano"))
            .divideAndRemainder(BigInteger.valueOf(1_000_000_000));
    String message = (String) vector.get("message");
    if (vector.containsKey("message_repeat")) {
      Map<String, Object> repeat = Tree.map(vector.get("message_repeat"));
      message = ((String) repeat.get("text")).repeat(((Long) repeat.get("count")).intValue());
    }
    String level = (String) vector.get("level");
    LogRecord record =
        LogRecord.of(level == null ? null : Level.valueOf(level.toUpperCase()), message)
            .at(Instant.ofEpochSecond(time[0].longValueExact(), time[1].longValueExact()));
    for (Object pair : Tree.list(vector.get("attributes"))) {
      record.with((String) Tree.list(pair).get(0), Tree.list(pair).get(1));
    }
    Encoder encoder = new Encoder();
    assertTrue(encoder.encode(record));
    String line = new String(encoder.bytes(), 0, encoder.length(), StandardCharsets.UTF_8);
    assertTrue(line.endsWith("}\n"));
    Map<String, Object> object = Tree.map(Tree.parse(line));
    assertEquals(List.of("time", "message"), List.copyOf(object.keySet()).subList(0, 2));
    if (vector.containsKey("truncated")) {
      int bytes = encoder.length() - 1;
      assertTrue(bytes <= 1 << 20 && bytes > (1 << 20) - 16, () -> "bytes: " + bytes);
      String kept = (String) object.get("message");
      assertTrue(message.startsWith(kept));
      assertEquals(
          Encoder.utf8Length(message) - Encoder.utf8Length(kept),
          object.get("bucksaw.truncated_bytes"));
    } else {
      assertEquals(vector.get("object"), object);
    }
  }

  @Test
  void requests() throws IOException {
    for (Map<String, Object> vector : Tree.maps(Tree.vectors("requests.json"))) {
      Client.Builder builder =
          Client.builder()
              .endpoints((String) vector.get("endpoint"))
              .durability(Durability.valueOf(((String) vector.get("durability")).toUpperCase()));
      Tree.map(vector.get("labels")).forEach((name, value) -> builder.label(name, (String) value));
      assertEquals(
          vector.get("url"),
          builder.settings().ingestAddresses().get(0).toString(),
          (String) vector.get("name"));
    }
  }

  @TestFactory
  Stream<DynamicTest> labels() throws IOException {
    return Tree.maps(Tree.vectors("labels.json")).stream()
        .map(v -> DynamicTest.dynamicTest((String) v.get("name"), () -> labels(v)));
  }

  private static void labels(Map<String, Object> vector) {
    Client.Builder builder = Client.builder();
    Executable add =
        () ->
            Tree.map(vector.get("labels"))
                .forEach((name, value) -> builder.label(name, (String) value));
    if (vector.get("sent") == null) {
      assertThrows(IllegalArgumentException.class, add);
    } else {
      assertDoesNotThrow(add);
      assertEquals(vector.get("sent"), builder.settings().labels());
    }
  }

  @Test
  void keys() throws IOException {
    for (Map<String, Object> vector : Tree.maps(Tree.vectors("keys.json"))) {
      byte[] random = HexFormat.of().parseHex((String) vector.get("random_hex"));
      assertEquals(vector.get("key"), Keys.key((Long) vector.get("unix_ms"), random));
    }
  }

  @TestFactory
  Stream<DynamicTest> outcomes() throws IOException {
    return Tree.maps(Tree.vectors("outcomes.json")).stream()
        .map(v -> DynamicTest.dynamicTest((String) v.get("name"), () -> outcome(v)));
  }

  private static void outcome(Map<String, Object> vector) {
    Optional<String> retryAfter =
        Optional.ofNullable((String) Tree.map(vector.get("headers")).get("Retry-After"));
    byte[] body = ((String) vector.get("body")).getBytes(StandardCharsets.UTF_8);
    Outcome outcome = Outcome.of(((Long) vector.get("status")).intValue(), retryAfter, body);
    switch ((String) vector.get("outcome")) {
      case "acknowledged":
        Outcome.Acknowledged answer = (Outcome.Acknowledged) outcome;
        assertEquals(vector.get("accepted"), answer.accepted());
        assertEquals(vector.get("rejected"), answer.rejected());
        break;
      case "retry":
        assertEquals(
            vector.get("retry_after_seconds"),
            (long) ((Outcome.Retry) outcome).retryAfterSeconds());
        break;
      case "denied":
        int seconds = ((Long) vector.get("retry_after_seconds")).intValue();
        assertEquals(new Outcome.Denied(seconds, (String) vector.get("error")), outcome);
        break;
      case "refused":
        assertEquals(new Outcome.Refused((String) vector.get("error")), outcome);
        break;
      default:
        throw new AssertionError(vector);
    }
  }

  @Test
  void pauses() throws IOException {
    for (Map<String, Object> vector : Tree.maps(Tree.vectors("pauses.json"))) {
      double pause =
          Pauses.millis(
              ((Long) vector.get("attempt")).intValue(),
              ((Number) vector.get("random")).doubleValue(),
              ((Long) vector.get("retry_after_seconds")).intValue());
      assertEquals(((Number) vector.get("milliseconds")).doubleValue(), pause, 1e-6);
    }
  }
}
