package dev.bucksaw;

import com.fasterxml.jackson.core.JsonParseException;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.util.Optional;

/** What follows from an answer to a batch. */
sealed interface Outcome {
  /** The batch is accepted, without the rejected records. The first error says why. */
  record Acknowledged(long accepted, long rejected, Optional<String> firstError)
      implements Outcome {}

  /** The batch is sent again. */
  record Retry(int retryAfterSeconds, String reason, Optional<Throwable> cause)
      implements Outcome {}

  /** The batch is sent again: the node may accept another token, or this one later. */
  record Denied(int retryAfterSeconds, String error) implements Outcome {}

  /** The batch is dropped. */
  record Refused(String error) implements Outcome {}

  /** Longest time that a {@code Retry-After} is obeyed, in seconds. */
  int RETRY_AFTER_SECONDS_MAX = 60;

  /** Longest part of an error of a node that is passed on, in characters. */
  int ERROR_CHARS_MAX = 1000;

  static Outcome of(int status, Optional<String> retryAfter, byte[] body) {
    if (status == 200) {
      return acknowledgement(body);
    }
    if (isRetried(status)) {
      String error = error(body).map(text -> ": " + text).orElse("");
      return new Retry(retryAfterSeconds(retryAfter), "status " + status + error, Optional.empty());
    }
    if (status == 401 || status == 403) {
      return new Denied(retryAfterSeconds(retryAfter), error(body).orElse("status " + status));
    }
    return new Refused(error(body).orElse("status " + status));
  }

  /** Whether another attempt, or another node, may succeed after this status. */
  static boolean isRetried(int status) {
    return switch (status) {
      case 408, 429, 500, 502, 503, 504 -> true;
      default -> false;
    };
  }

  private static Outcome acknowledgement(byte[] body) {
    long accepted = -1;
    long rejected = -1;
    Optional<String> firstError = Optional.empty();
    try (JsonParser parser = Json.parser(body)) {
      Json.object(parser);
      while (parser.nextToken() == JsonToken.FIELD_NAME) {
        String name = parser.currentName();
        JsonToken value = parser.nextToken();
        if (value == JsonToken.VALUE_NUMBER_INT && name.equals("accepted")) {
          accepted = parser.getLongValue();
        } else if (value == JsonToken.VALUE_NUMBER_INT && name.equals("rejected")) {
          rejected = parser.getLongValue();
        } else if (value == JsonToken.START_ARRAY && name.equals("errors")) {
          firstError = firstText(parser);
        } else {
          parser.skipChildren();
        }
      }
      Json.end(parser);
    } catch (IOException e) {
      return new Retry(0, "status 200 with an answer that cannot be read", Optional.of(e));
    }
    if (accepted < 0 || rejected < 0) {
      return new Retry(0, "status 200 without the numbers of records", Optional.empty());
    }
    return new Acknowledged(accepted, rejected, firstError);
  }

  /** The first element of an array, if it is a text. Reads to the end of the array. */
  private static Optional<String> firstText(JsonParser parser) throws IOException {
    Optional<String> first = Optional.empty();
    JsonToken element = parser.nextToken();
    if (element == JsonToken.VALUE_STRING) {
      first = Optional.of(limited(parser.getText()));
    }
    while (element != JsonToken.END_ARRAY) {
      if (element == null) {
        throw new JsonParseException(parser, "the array has no end");
      }
      parser.skipChildren();
      element = parser.nextToken();
    }
    return first;
  }

  private static String limited(String text) {
    return text.length() > ERROR_CHARS_MAX ? text.substring(0, ERROR_CHARS_MAX) : text;
  }

  private static int retryAfterSeconds(Optional<String> header) {
    String text = header.orElse("").trim();
    if (text.isEmpty() || !text.chars().allMatch(c -> c >= '0' && c <= '9')) {
      return 0;
    }
    // More digits than a number has: the longest time.
    return text.length() > 9
        ? RETRY_AFTER_SECONDS_MAX
        : Math.min(RETRY_AFTER_SECONDS_MAX, Integer.parseInt(text));
  }

  /** The member {@code error} of an answer. */
  static Optional<String> error(byte[] body) {
    try (JsonParser parser = Json.parser(body)) {
      Json.object(parser);
      while (parser.nextToken() == JsonToken.FIELD_NAME) {
        String name = parser.currentName();
        if (parser.nextToken() == JsonToken.VALUE_STRING && name.equals("error")) {
          return Optional.of(limited(parser.getText()));
        }
        parser.skipChildren();
      }
    } catch (IOException e) {
      // An answer that is not JSON states no error.
      return Optional.empty();
    }
    return Optional.empty();
  }
}
