/**
 * Sends log records to Bucksaw, and reads them back.
 *
 * <p>{@link dev.bucksaw.Client} is the entrance. All public types are safe for use by several
 * threads unless they say otherwise.
 */
package dev.bucksaw;
