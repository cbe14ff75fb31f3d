package interbed.spark.planner;

import java.io.Serializable;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;

/**
 * The Python that runs interbed, and its environment: chosen on the driver, and sent to the executors.
 *
 * <p>The order is Spark's own for workers: spark.pyspark.python, then PYSPARK_PYTHON, then python3 on the PATH.
 * spark.interbed.python precedes them, for clusters with interbed in an environment of its own.
 */
public record PythonCommand(String executable, Map<String, String> environment) implements Serializable {
  private static final String ENVIRONMENT_PREFIX = "spark.interbed.pythonEnv.";

  public static PythonCommand current() {
    SparkConf conf = SparkEnv.get().conf();
    String executable = conf.get("spark.interbed.python", conf.get("spark.pyspark.python", null));
    if (executable == null) {
      executable = System.getenv().getOrDefault("PYSPARK_PYTHON", "python3");
    }
    Map<String, String> environment = new TreeMap<>();
    environment.put(InterfaceVersion.VARIABLE, InterfaceVersion.OURS);
    for (scala.Tuple2<String, String> entry : conf.getAllWithPrefix(ENVIRONMENT_PREFIX)) {
      environment.put(entry._1(), entry._2());
    }
    return new PythonCommand(executable, environment);
  }
}
