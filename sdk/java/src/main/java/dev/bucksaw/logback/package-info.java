/** The appender for Logback. It needs {@code logback-classic}. */
package dev.bucksaw.logback;
