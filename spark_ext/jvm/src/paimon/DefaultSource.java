package paimon;

/**
 * Spark's default class of the source paimon when none is registered: USING paimon in the session's catalog.
 *
 * <p>It is not registered by that name, so that Paimon's own jar can be used beside this one.
 */
public final class DefaultSource extends interbed.spark.DefaultSource {}
