package dev.bucksaw;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParseException;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.core.util.JsonRecyclerPools;
import java.io.IOException;

/** Parsers of JSON from nodes. */
final class Json {
  private static final int NESTING_MAX = 200;
  private static final int POOL_SIZE = 16;

  // Names of members come from records of others, so none of them are kept between answers.
  private static final JsonFactory FACTORY =
      JsonFactory.builder()
          .disable(JsonFactory.Feature.CANONICALIZE_FIELD_NAMES)
          .disable(JsonFactory.Feature.INTERN_FIELD_NAMES)
          // The default pool leaves buffers in the threads of the program.
          .recyclerPool(JsonRecyclerPools.newBoundedPool(POOL_SIZE))
          .streamReadConstraints(
              StreamReadConstraints.builder()
                  .maxNestingDepth(NESTING_MAX)
                  .maxStringLength(AnswerLines.LINE_BYTES_MAX)
                  .maxNameLength(AnswerLines.LINE_BYTES_MAX)
                  .build())
          .build();

  private Json() {}

  static JsonParser parser(byte[] data) throws IOException {
    return parser(data, 0, data.length);
  }

  static JsonParser parser(byte[] data, int offset, int length) throws IOException {
    return FACTORY.createParser(data, offset, length);
  }

  /** Reads the start of an object. */
  static void object(JsonParser parser) throws IOException {
    if (parser.nextToken() != JsonToken.START_OBJECT) {
      throw new JsonParseException(parser, "expected an object");
    }
  }

  /** Verifies that the object is complete and nothing follows it. */
  static void end(JsonParser parser) throws IOException {
    if (parser.currentToken() != JsonToken.END_OBJECT || parser.nextToken() != null) {
      throw new JsonParseException(parser, "expected the end of the object");
    }
  }
}
