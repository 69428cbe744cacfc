// A formatter for the console consumer: every record of __consumer_offsets, read by Kafka's own serde. Those that Kafka
// brings along leave out what a consumer group (KIP-848) writes.
import com.fasterxml.jackson.databind.JsonNode;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.generated.CoordinatorRecordJsonConverters;
import org.apache.kafka.tools.consumer.CoordinatorRecordMessageFormatter;

public class GroupRecordsFormatter extends CoordinatorRecordMessageFormatter {
    public GroupRecordsFormatter() { super(new GroupCoordinatorRecordSerde()); }
    @Override protected boolean isRecordTypeAllowed(short type) { return true; }
    @Override protected JsonNode keyAsJson(ApiMessage message) { return CoordinatorRecordJsonConverters.writeRecordKeyAsJson(message); }
    @Override protected JsonNode valueAsJson(ApiMessage message, short version) { return CoordinatorRecordJsonConverters.writeRecordValueAsJson(message, version); }
}
