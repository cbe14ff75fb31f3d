package interbed.recorder;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Map;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkEnv;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.api.plugin.SparkPlugin;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.serializer.Serializer;

/**
 * Records all that a driver serializes for executors (closures, tasks with their partitions, broadcasts) and the properties of its
 * jobs, into the directory of the setting spark.recorder.directory.
 */
public final class RecordingPlugin implements SparkPlugin {
  @Override
  public DriverPlugin driverPlugin() {
    return new Recorder();
  }

  @Override
  public ExecutorPlugin executorPlugin() {
    return null;
  }

  private static final class Recorder implements DriverPlugin {
    @Override
    public Map<String, String> init(SparkContext context, PluginContext plugin) {
      Path directory = Path.of(context.getConf().get("spark.recorder.directory"));
      RecordingSerializer.open(directory.resolve("bytes"));
      // The scheduler takes its serializer of closures after this.
      replace("closureSerializer");
      replace("serializer");
      context.addSparkListener(new JobProperties());
      return Map.of();
    }

    private static void replace(String name) {
      try {
        Field field = SparkEnv.class.getDeclaredField(name);
        field.setAccessible(true);
        Serializer recording = new RecordingSerializer(SparkEnv.get().conf());
        field.set(SparkEnv.get(), recording);
      } catch (ReflectiveOperationException error) {
        throw new IllegalStateException(error);
      }
    }
  }

  private static final class JobProperties extends SparkListener {
    @Override
    public void onJobStart(SparkListenerJobStart job) {
      if (job.properties() != null) {
        try {
          RecordingSerializer.record(job.properties().toString().getBytes(StandardCharsets.UTF_8));
        } catch (IOException error) {
          throw new UncheckedIOException(error);
        }
      }
    }
  }
}
