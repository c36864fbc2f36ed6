package dev.bucksaw;

import com.fasterxml.jackson.core.JsonParseException;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.format.DateTimeParseException;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** Parses one line of an answer. Members that it does not know are passed over. */
final class AnswerParser {
  private String id;
  private String time;
  private Map<String, String> labels = Map.of();
  private Map<String, String> attributes = Map.of();
  private Map<String, byte[]> binaryAttributes = Map.of();
  private String line;
  private byte[] binaryLine;
  private boolean cut;
  private boolean unterminated;
  private QueryStats stats;
  private Notice.Kind notice;
  private long noticeCount;
  private String noticeReason;
  private String noticeNode;
  private Long count;

  private AnswerParser() {}

  /**
   * The content of a line.
   *
   * @return a {@link StoredRecord}, a {@link QueryStats}, a {@link Notice}, or null for another
   *     object
   * @throws QueryException if it is not an object, or a member has another form than nodes send
   */
  static Object parse(byte[] data, int length) {
    return read(data, length).result();
  }

  /**
   * The content of the line that was just read. A line at the end of the answer that is cut makes
   * the answer incomplete rather than invalid.
   */
  static Object parseOrCut(AnswerLines lines) {
    try {
      return parse(lines.bytes(), lines.length());
    } catch (QueryException e) {
      if (!lines.terminated()) {
        throw incomplete(lines, "the answer ended within a line");
      }
      throw e;
    }
  }

  static QueryException incomplete(AnswerLines lines, String message) {
    Throwable failure = lines.source().failure();
    return new QueryException(
        QueryException.Kind.INCOMPLETE,
        failure == null ? message : message + ": " + failure,
        failure);
  }

  /** A document with a count: the number and the statistics. */
  record Count(long count, QueryStats stats) {}

  static Count parseCount(byte[] data, int length) {
    AnswerParser parsed = read(data, length);
    if (parsed.count == null || parsed.stats == null) {
      throw new QueryException(
          QueryException.Kind.INVALID, "the answer has no count and statistics", null);
    }
    return new Count(parsed.count, parsed.stats);
  }

  private static AnswerParser read(byte[] data, int length) {
    AnswerParser parsed = new AnswerParser();
    try (JsonParser parser = Json.parser(data, 0, length)) {
      Json.object(parser);
      while (parser.nextToken() == JsonToken.FIELD_NAME) {
        String name = parser.currentName();
        parser.nextToken();
        parsed.member(name, parser);
      }
      Json.end(parser);
    } catch (IOException | IllegalArgumentException | DateTimeParseException e) {
      throw new QueryException(
          QueryException.Kind.INVALID, "a line of the answer is invalid: " + e.getMessage(), e);
    }
    return parsed;
  }

  private void member(String name, JsonParser parser) throws IOException {
    switch (name) {
      case "id" -> id = text(parser);
      case "time" -> time = text(parser);
      case "labels" -> labels = texts(parser);
      case "attributes" -> attributes = merged(attributes, texts(parser));
      case "attributes_base64" -> binaryAttributes(parser);
      case "line" -> line = text(parser);
      case "line_base64" -> binaryLine = Base64.getDecoder().decode(text(parser));
      case "cut" -> cut = parser.getBooleanValue();
      case "unterminated" -> unterminated = parser.getBooleanValue();
      case "stats" -> stats = stats(parser);
      case "count" -> count = parser.getLongValue();
      case "skipped_bytes" -> notice(Notice.Kind.SKIPPED_BYTES, parser);
      case "skipped_records" -> notice(Notice.Kind.SKIPPED_RECORDS, parser);
      case "lost" -> {
        notice = Notice.Kind.LOST;
        noticeReason = text(parser);
      }
      case "joined" -> {
        notice = Notice.Kind.JOINED;
        parser.skipChildren();
      }
      case "node" -> noticeNode = text(parser);
      default -> parser.skipChildren();
    }
  }

  private void notice(Notice.Kind kind, JsonParser parser) throws IOException {
    notice = kind;
    noticeCount = parser.getLongValue();
  }

  private Object result() {
    if (stats != null) {
      return stats;
    }
    if (id != null && time != null && (line != null || binaryLine != null)) {
      String text = line == null ? new String(binaryLine, StandardCharsets.UTF_8) : line;
      return new StoredRecord(
          id,
          instant(),
          labels,
          attributes,
          binaryAttributes,
          text,
          line == null ? binaryLine : null,
          cut,
          unterminated);
    }
    if (notice != null) {
      return new Notice(
          notice, noticeCount, Optional.ofNullable(noticeReason), Optional.ofNullable(noticeNode));
    }
    return null;
  }

  private Instant instant() {
    try {
      return Instant.parse(time);
    } catch (DateTimeParseException e) {
      throw new QueryException(QueryException.Kind.INVALID, "a record has an invalid time", e);
    }
  }

  private void binaryAttributes(JsonParser parser) throws IOException {
    Map<String, byte[]> binary = new LinkedHashMap<>();
    Map<String, String> text = new LinkedHashMap<>();
    for (Map.Entry<String, String> entry : texts(parser).entrySet()) {
      byte[] value = Base64.getDecoder().decode(entry.getValue());
      binary.put(entry.getKey(), value);
      text.put(entry.getKey(), new String(value, StandardCharsets.UTF_8));
    }
    binaryAttributes = binary;
    attributes = merged(attributes, text);
  }

  private static Map<String, String> merged(Map<String, String> some, Map<String, String> more) {
    if (some.isEmpty()) {
      return Collections.unmodifiableMap(more);
    }
    Map<String, String> all = new LinkedHashMap<>(some);
    all.putAll(more);
    return Collections.unmodifiableMap(all);
  }

  private static String text(JsonParser parser) throws IOException {
    if (parser.currentToken() != JsonToken.VALUE_STRING) {
      throw new JsonParseException(parser, "expected a text");
    }
    return parser.getText();
  }

  private static Map<String, String> texts(JsonParser parser) throws IOException {
    expect(parser, JsonToken.START_OBJECT);
    Map<String, String> texts = new LinkedHashMap<>();
    while (parser.nextToken() == JsonToken.FIELD_NAME) {
      String name = parser.currentName();
      parser.nextToken();
      texts.put(name, text(parser));
    }
    return Collections.unmodifiableMap(texts);
  }

  private static List<String> list(JsonParser parser) throws IOException {
    expect(parser, JsonToken.START_ARRAY);
    List<String> list = new ArrayList<>();
    while (parser.nextToken() != JsonToken.END_ARRAY) {
      list.add(text(parser));
    }
    return list;
  }

  private static void expect(JsonParser parser, JsonToken token) throws IOException {
    if (parser.currentToken() != token) {
      throw new JsonParseException(parser, "expected " + token);
    }
  }

  private static QueryStats stats(JsonParser parser) throws IOException {
    expect(parser, JsonToken.START_OBJECT);
    long matched = 0;
    boolean partial = false;
    boolean timedOut = false;
    long asked = 0;
    long answered = 0;
    List<String> reasons = List.of();
    List<String> hints = List.of();
    List<QueryStats.MissingNode> missing = new ArrayList<>();
    while (parser.nextToken() == JsonToken.FIELD_NAME) {
      String name = parser.currentName();
      parser.nextToken();
      switch (name) {
        case "matched" -> matched = parser.getLongValue();
        case "partial" -> partial = parser.getBooleanValue();
        case "timed_out" -> timedOut = parser.getBooleanValue();
        case "partial_reasons" -> reasons = list(parser);
        case "hints" -> hints = list(parser);
        case "nodes_asked" -> asked = parser.getLongValue();
        case "nodes_answered" -> answered = parser.getLongValue();
        case "nodes_missing" -> missing = missing(parser);
        default -> parser.skipChildren();
      }
    }
    return new QueryStats(matched, partial, reasons, timedOut, asked, answered, missing, hints);
  }

  private static List<QueryStats.MissingNode> missing(JsonParser parser) throws IOException {
    expect(parser, JsonToken.START_ARRAY);
    List<QueryStats.MissingNode> missing = new ArrayList<>();
    while (parser.nextToken() != JsonToken.END_ARRAY) {
      expect(parser, JsonToken.START_OBJECT);
      Map<String, String> members = new LinkedHashMap<>();
      while (parser.nextToken() == JsonToken.FIELD_NAME) {
        String name = parser.currentName();
        if (parser.nextToken() == JsonToken.VALUE_STRING) {
          members.put(name, parser.getText());
        } else {
          parser.skipChildren();
        }
      }
      missing.add(
          new QueryStats.MissingNode(
              members.getOrDefault("node", ""),
              members.getOrDefault("address", ""),
              members.getOrDefault("reason", ""),
              members.getOrDefault("message", "")));
    }
    return missing;
  }
}
