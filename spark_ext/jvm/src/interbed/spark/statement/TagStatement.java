package interbed.spark.statement;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * ALTER TABLE … CREATE, REPLACE, DELETE and RENAME TAG, and SHOW TAGS: Paimon's statements, which Spark does not parse.
 *
 * <p>They become a {@link SystemCall} when their table is in one of our catalogs. Extensions of other catalogs have statements
 * with the same words, which they parse.
 */
public record TagStatement(String procedure, Map<String, String> fields) {
  private static final String CREATE = "create_tag_statement";
  private static final String DELETE = "delete_tag_statement";
  private static final String RENAME = "rename_tag_statement";
  private static final String SHOW = "show_tags_statement";

  private static final String USAGE =
      "Write ALTER TABLE name CREATE [OR REPLACE] TAG [IF NOT EXISTS] tag [AS OF VERSION number]"
          + " [RETAIN number DAYS | HOURS | MINUTES], ALTER TABLE name REPLACE TAG tag …, ALTER TABLE name DELETE TAG"
          + " [IF EXISTS] tag, ALTER TABLE name RENAME TAG tag TO tag or SHOW TAGS name.";

  /** The procedures of the statements. */
  static final List<SystemProcedure> PROCEDURES =
      List.of(
          PlannedStatement.silent(CREATE),
          PlannedStatement.silent(DELETE),
          PlannedStatement.silent(RENAME),
          PlannedStatement.showing(SHOW, new StructType().add("tag", DataTypes.StringType, false)));

  /** The statement, or empty when the text is some other statement. Throws IllegalArgumentException. */
  public static Optional<TagStatement> parse(String sql) {
    SqlScanner scanner = new SqlScanner(sql, USAGE);
    if (scanner.takeWords("SHOW", "TAGS")) {
      Map<String, String> fields = new LinkedHashMap<>();
      if (!PlannedStatement.takeTable(scanner, fields)) {
        return Optional.empty();
      }
      scanner.expectEnd();
      return Optional.of(new TagStatement(SHOW, fields));
    }
    if (!scanner.takeWords("ALTER", "TABLE")) {
      return Optional.empty();
    }
    Map<String, String> fields = new LinkedHashMap<>();
    boolean ours = PlannedStatement.takeTable(scanner, fields);
    Optional<TagStatement> found = ours ? change(scanner, fields) : Optional.empty();
    if (found.isPresent()) {
      scanner.expectEnd();
    }
    return found;
  }

  private static Optional<TagStatement> change(SqlScanner scanner, Map<String, String> fields) {
    if (scanner.takeWords("CREATE", "OR", "REPLACE", "TAG")) {
      fields.put("mode", "create or replace");
    } else if (scanner.takeWords("REPLACE", "TAG")) {
      fields.put("mode", "replace");
    } else if (scanner.takeWords("CREATE", "TAG")) {
      fields.put("mode", scanner.takeWords("IF", "NOT", "EXISTS") ? "create if missing" : "create");
    } else if (scanner.takeWords("DELETE", "TAG") || scanner.takeWords("DROP", "TAG")) {
      fields.put("mode", scanner.takeWords("IF", "EXISTS") ? "if exists" : "strict");
      fields.put("tag", scanner.identifier("the tag's name"));
      return Optional.of(new TagStatement(DELETE, fields));
    } else if (scanner.takeWords("RENAME", "TAG")) {
      fields.put("tag", scanner.identifier("the tag's name"));
      scanner.expectWord("TO");
      fields.put("target_tag", scanner.identifier("the tag's new name"));
      return Optional.of(new TagStatement(RENAME, fields));
    } else {
      return Optional.empty();
    }
    fields.put("tag", scanner.identifier("the tag's name"));
    if (scanner.takeWords("AS", "OF", "VERSION")) {
      fields.put("snapshot", scanner.number("the snapshot's number"));
    }
    if (scanner.takeWords("RETAIN")) {
      String count = scanner.number("a number of days, hours or minutes");
      fields.put("time_retained", count + " " + unit(scanner));
    }
    return Optional.of(new TagStatement(CREATE, fields));
  }

  private static String unit(SqlScanner scanner) {
    for (String unit : List.of("DAYS", "HOURS", "MINUTES")) {
      if (scanner.takeWords(unit)) {
        return unit.substring(0, 1).equals("M") ? "min" : unit.substring(0, 1).toLowerCase(java.util.Locale.ROOT);
      }
    }
    throw scanner.error("DAYS, HOURS or MINUTES");
  }

  public String toCall() {
    return SystemCall.of(procedure, fields);
  }
}
