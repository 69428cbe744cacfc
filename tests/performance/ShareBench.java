import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * What performance/contestant.py does, by Apache's own client. Arguments: bootstrap, topic, group, records, mode,
 * max.poll.records, records to leave out at the beginning, whether values are stamped. The clock begins when so many
 * records have been handled: until then the JVM compiles, and that is no cost of a record.
 */
class ShareBench {
    public static void main(String[] given) throws Exception {
        String mode = given[4];
        long wanted = Long.parseLong(given[3]), leftOut = Long.parseLong(given[6]);
        boolean stamped = Boolean.parseBoolean(given[7]);
        Properties settings = new Properties();
        settings.put("bootstrap.servers", given[0]);
        settings.put("group.id", given[2]);
        settings.put("max.poll.records", given[5]);
        settings.put("share.acknowledgement.mode", mode.equals("implicit") ? "implicit" : "explicit");
        var bean = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        long count = 0, before = -1, began = 0, cpuBefore = 0, ended = 0, cpu = 0;
        List<String> latencies = new ArrayList<>();
        long lastAt = System.nanoTime();
        try (var consumer = new KafkaShareConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(given[1]));
            while (count < wanted) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(500));
                if (records.isEmpty()) {
                    if (System.nanoTime() - lastAt > 60_000_000_000L) throw new IllegalStateException(count + " records came");
                    continue;
                }
                if (stamped && before >= 0) {
                    var instant = java.time.Instant.now();
                    long now = instant.getEpochSecond() * 1_000_000_000L + instant.getNano();
                    for (var record : records) latencies.add(Double.toString((now - ByteBuffer.wrap(record.value()).getLong()) / 1000.0));
                }
                long touched = 0;
                for (var record : records) {
                    touched += record.value().length;
                    if (!mode.equals("implicit")) consumer.acknowledge(record);
                }
                if (touched < 0) throw new IllegalStateException();
                if (mode.equals("commit")) consumer.commitSync();
                count += records.count();
                lastAt = ended = System.nanoTime();
                cpu = bean.getProcessCpuTime();
                if (count == records.count()) System.out.println("begun");
                if (before < 0 && count >= leftOut) {
                    before = count;
                    began = ended;
                    cpuBefore = cpu;
                }
            }
        }
        System.out.printf(Locale.ROOT, "{\"records\": %d, \"began_at_s\": %.9f, \"ended_at_s\": %.9f, \"cpu_s\": %.6f, \"rss_mb\": %.1f, \"latencies_us\": %s}%n",
            count - before, began / 1e9, ended / 1e9, (cpu - cpuBefore) / 1e9, rss(), latencies);
    }

    private static double rss() throws Exception {
        for (String line : java.nio.file.Files.readAllLines(java.nio.file.Path.of("/proc/self/status")))
            if (line.startsWith("VmHWM:")) return Double.parseDouble(line.replaceAll("[^0-9]", "")) / 1024;
        return 0;
    }
}
