package interbed.spark;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/**
 * What spark.sql.extensions names: it teaches the session CREATE CATALOG and DROP CATALOG.
 *
 * <p>The parser is a proxy around Spark's, since ParserInterface grows abstract methods from version to version. It turns the
 * two statements into a CALL of a procedure of {@link SystemCatalog} and passes everything else on.
 */
public final class SparkExtensions extends AbstractFunction1<SparkSessionExtensions, BoxedUnit> {
  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    extensions.injectParser(
        (session, delegate) ->
            (ParserInterface)
                Proxy.newProxyInstance(
                    SparkExtensions.class.getClassLoader(),
                    new Class<?>[] {ParserInterface.class},
                    new StatementParser(delegate)));
    return BoxedUnit.UNIT;
  }

  /** Calls the parser that it wraps, on the statement or on its translation. */
  private record StatementParser(ParserInterface delegate) implements InvocationHandler {
    @Override
    public Object invoke(Object proxy, java.lang.reflect.Method method, Object[] arguments) throws Throwable {
      Object[] passed = arguments;
      // parsePlan, and parsePlanWithParameters from 4.1 on.
      if (method.getName().startsWith("parsePlan") && arguments[0] instanceof String sql) {
        passed = arguments.clone();
        passed[0] = CatalogStatement.parse(sql).map(CatalogStatement::toCall).orElse(sql);
      }
      try {
        return method.invoke(delegate, passed);
      } catch (InvocationTargetException error) {
        throw error.getCause();
      }
    }
  }
}
