package dev.bucksaw;

import java.security.SecureRandom;
import java.util.UUID;

/** Idempotency keys: UUIDs of version 7. */
final class Keys {
  /** Number of random bytes that a key takes. */
  static final int RANDOM_BYTES = 10;

  private final SecureRandom random = new SecureRandom();

  String next(long unixMillis) {
    byte[] bytes = new byte[RANDOM_BYTES];
    random.nextBytes(bytes);
    return key(unixMillis, bytes);
  }

  /**
   * The key of a time and random bytes, of which six bits give way to the version and the variant.
   */
  static String key(long unixMillis, byte[] random) {
    long high = unixMillis << 16 | 0x7000 | (random[0] & 0x0fL) << 8 | random[1] & 0xffL;
    long low = 0;
    for (int i = 2; i < RANDOM_BYTES; i++) {
      low = low << 8 | random[i] & 0xffL;
    }
    low = low & 0x3fff_ffff_ffff_ffffL | 0x8000_0000_0000_0000L;
    return new UUID(high, low).toString();
  }
}
