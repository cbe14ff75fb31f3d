package interbed.spark.statement;

/** Reads the few tokens of the statements that Spark can't parse, with its rules for comments, names and strings. */
final class SqlScanner {
  private final String sql;
  private final String usage;
  private int position;

  /** Reads a statement about catalogs. */
  SqlScanner(String sql) {
    this(
        sql,
        "Write CREATE CATALOG [IF NOT EXISTS] name WITH ('type' = 'interbed', 'warehouse' = '…')"
            + ", DROP CATALOG [IF EXISTS] name or USE CATALOG name.");
  }

  /** Reads a statement; {@code usage} ends the messages of errors. */
  SqlScanner(String sql, String usage) {
    this.sql = sql;
    this.usage = usage;
  }

  /** Takes these words if all of them are next, or nothing. */
  boolean takeWords(String... words) {
    int start = position;
    for (String word : words) {
      skipBlanks();
      int end = position + word.length();
      boolean here = sql.regionMatches(true, position, word, 0, word.length());
      if (!here || (end < sql.length() && isNamePart(sql.charAt(end)))) {
        position = start;
        return false;
      }
      position = end;
    }
    return true;
  }

  boolean take(char symbol) {
    skipBlanks();
    if (position < sql.length() && sql.charAt(position) == symbol) {
      position++;
      return true;
    }
    return false;
  }

  void expectWord(String word) {
    if (!takeWords(word)) {
      throw error(word);
    }
  }

  void expect(char symbol) {
    if (!take(symbol)) {
      throw error("'" + symbol + "'");
    }
  }

  void expectEnd() {
    while (take(';')) {
      // A terminator, or several, may end the statement.
    }
    skipBlanks();
    if (position < sql.length()) {
      throw error("the end of the statement");
    }
  }

  /** Whether a name comes next. */
  boolean isBeforeName() {
    skipBlanks();
    return position < sql.length() && (sql.charAt(position) == '`' || isNamePart(sql.charAt(position)));
  }

  String identifier(String what) {
    skipBlanks();
    if (position < sql.length() && sql.charAt(position) == '`') {
      return delimited('`');
    }
    int start = position;
    while (position < sql.length() && isNamePart(sql.charAt(position))) {
      position++;
    }
    if (start == position) {
      throw error(what);
    }
    return sql.substring(start, position);
  }

  /** 'key', or bare words joined by dots and dashes. */
  String optionKey() {
    skipBlanks();
    if (isQuote()) {
      return delimited(sql.charAt(position));
    }
    int start = position;
    while (position < sql.length() && (isNamePart(sql.charAt(position)) || ".-".indexOf(sql.charAt(position)) >= 0)) {
      position++;
    }
    if (start == position) {
      throw error("an option's name such as 'warehouse'");
    }
    return sql.substring(start, position);
  }

  /** 'value', or a bare number or boolean. */
  String optionValue() {
    skipBlanks();
    if (isQuote()) {
      return delimited(sql.charAt(position));
    }
    int start = position;
    while (position < sql.length() && (isNamePart(sql.charAt(position)) || "+-.".indexOf(sql.charAt(position)) >= 0)) {
      position++;
    }
    String value = sql.substring(start, position);
    if (!value.matches("(?i)true|false|[+-]?\\d+(\\.\\d+)?")) {
      position = start;
      throw error("a value in quotes, a number, true or false");
    }
    return value;
  }

  /** Digits, as they are written. */
  String number(String what) {
    skipBlanks();
    int start = position;
    while (position < sql.length() && Character.isDigit(sql.charAt(position))) {
      position++;
    }
    if (start == position) {
      throw error(what);
    }
    return sql.substring(start, position);
  }

  /** The text between parentheses, which may have pairs of them, and parentheses in names and strings. */
  String parenthesized() {
    expect('(');
    int start = position;
    for (int open = 1; position < sql.length(); ) {
      skipBlanks();
      if (position < sql.length() && (isQuote() || sql.charAt(position) == '`')) {
        delimited(sql.charAt(position));
      } else if (take('(')) {
        open++;
      } else if (take(')')) {
        if (--open == 0) {
          return sql.substring(start, position - 1).strip();
        }
      } else {
        position++;
      }
    }
    throw error("')'");
  }

  IllegalArgumentException error(String expected) {
    skipBlanks();
    String found = position < sql.length() ? "\"" + excerpt() + "\"" : "the end of the statement";
    return new IllegalArgumentException(
        "Expected "
            + expected
            + " but found "
            + found
            + " at character "
            + (position + 1)
            + ". "
            + usage);
  }

  private String excerpt() {
    return sql.substring(position, Math.min(sql.length(), position + 30)).strip();
  }

  private boolean isQuote() {
    return position < sql.length() && (sql.charAt(position) == '\'' || sql.charAt(position) == '"');
  }

  /** A name or string between two quotes; the quote itself is written twice, in strings also after a backslash. */
  private String delimited(char quote) {
    int start = position++;
    StringBuilder text = new StringBuilder();
    while (position < sql.length()) {
      char next = sql.charAt(position++);
      if (next == quote) {
        if (position >= sql.length() || sql.charAt(position) != quote) {
          return text.toString();
        }
        position++;
      } else if (next == '\\' && quote != '`' && position < sql.length()) {
        next = unescaped(sql.charAt(position++));
      }
      text.append(next);
    }
    position = start;
    throw error("a closing " + quote);
  }

  private static char unescaped(char letter) {
    return switch (letter) {
      case 'n' -> '\n';
      case 't' -> '\t';
      case 'r' -> '\r';
      default -> letter;
    };
  }

  private void skipBlanks() {
    while (position < sql.length()) {
      if (Character.isWhitespace(sql.charAt(position))) {
        position++;
      } else if (sql.startsWith("--", position)) {
        int end = sql.indexOf('\n', position);
        position = end < 0 ? sql.length() : end + 1;
      } else if (sql.startsWith("/*", position) && !sql.startsWith("/*+", position)) {
        int end = sql.indexOf("*/", position + 2);
        position = end < 0 ? sql.length() : end + 2;
      } else {
        return;
      }
    }
  }

  private static boolean isNamePart(char letter) {
    return Character.isLetterOrDigit(letter) || letter == '_';
  }
}
