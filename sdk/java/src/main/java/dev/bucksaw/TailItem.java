package dev.bucksaw;

/** What a tail delivers: a {@link StoredRecord} or a {@link Notice}. */
public sealed interface TailItem permits StoredRecord, Notice {}
