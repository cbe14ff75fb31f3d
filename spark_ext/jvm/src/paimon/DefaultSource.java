package paimon;

/**
 * What Spark takes for the source paimon when nobody has registered one: USING paimon in the session's catalog.
 *
 * <p>Not registered by that name, so that Paimon's own jar may stand beside this one.
 */
public final class DefaultSource extends interbed.spark.DefaultSource {}
