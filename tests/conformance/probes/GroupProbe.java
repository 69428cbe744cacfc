// Usage: java -cp 'LIBS/*' GroupProbe.java HOST:PORT     Apache's ordinary consumer with group.protocol=consumer (KIP-848).
// Prints one line per step, without times and ids, so that what two brokers bring about can be compared.
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import java.util.function.*;
import java.util.stream.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.*;

public class GroupProbe {
    static final long PATIENCE_MS = 60_000;
    static final String RUN = Long.toString(System.nanoTime() & 0xffffff, 36);
    static String bootstrap;
    static Admin admin;

    /** A consumer and what its rebalance listener was told. */
    static class Member implements AutoCloseable, ConsumerRebalanceListener {
        final KafkaConsumer<String, String> consumer;
        final List<String> told = new ArrayList<>();

        Member(String group, String... settings) {
            Map<String, Object> config = new HashMap<>(Map.<String, Object>of("bootstrap.servers", bootstrap, "group.id", group, "group.protocol", "consumer",
                "client.id", "probe", "allow.auto.create.topics", "false", "auto.offset.reset", "earliest", "enable.auto.commit", "false"));
            for (int i = 0; i < settings.length; i += 2) config.put(settings[i], settings[i + 1]);
            consumer = new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
        }
        Member subscribe(String... topics) { consumer.subscribe(List.of(topics), this); return this; }
        Member subscribe(SubscriptionPattern pattern) { consumer.subscribe(pattern, this); return this; }
        public void onPartitionsAssigned(Collection<TopicPartition> parts) { if (!parts.isEmpty()) told.add("assigned" + parts.size()); }
        public void onPartitionsRevoked(Collection<TopicPartition> parts) { told.add("revoked" + parts.size()); }
        public void onPartitionsLost(Collection<TopicPartition> parts) { told.add("lost" + parts.size()); }
        int held() { return consumer.assignment().size(); }
        List<String> read(int count) {
            List<String> values = new ArrayList<>();
            until(() -> { consumer.poll(Duration.ofMillis(100)).forEach(r -> values.add(r.value())); return values.size() >= count; });
            return values;
        }
        public void close() { consumer.close(); }
    }

    static void until(BooleanSupplier done) {
        for (long end = System.currentTimeMillis() + PATIENCE_MS; !done.getAsBoolean(); )
            if (System.currentTimeMillis() > end) throw new IllegalStateException("it did not come");
    }

    /** Poll all members until they hold so many partitions. */
    static void balance(List<Member> members, Integer... counts) {
        until(() -> {
            members.forEach(m -> m.consumer.poll(Duration.ofMillis(50)));
            return members.stream().map(Member::held).toList().equals(List.of(counts));
        });
    }

    static String name(String base) { return base + "-" + RUN; }

    /** The name of a group whose members learn of each other soon. */
    static String group(String base) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.GROUP, name(base));
        ConfigEntry quick = new ConfigEntry("consumer.heartbeat.interval.ms", "500");
        admin.incrementalAlterConfigs(Map.of(resource, List.of(new AlterConfigOp(quick, AlterConfigOp.OpType.SET)))).all().get();
        return name(base);
    }

    static String topic(String base, int partitions) throws Exception {
        admin.createTopics(List.of(new NewTopic(name(base), partitions, (short) 1))).all().get();
        until(() -> { try { return admin.listTopics().names().get().contains(name(base)); } catch (Exception e) { return false; } });
        return name(base);
    }

    static void produce(String topic, int count) {
        try (var producer = new KafkaProducer<>(Map.<String, Object>of("bootstrap.servers", bootstrap), new StringSerializer(), new StringSerializer())) {
            for (int i = 0; i < count; i++) producer.send(new ProducerRecord<>(topic, 0, null, "v" + i));
        }
    }

    static String described(String group) throws Exception {
        ConsumerGroupDescription found = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
        String members = found.members().stream().map(m -> m.groupInstanceId().orElse("-") + ":" + m.assignment().topicPartitions().size()
            + (m.upgraded().isPresent() ? (m.upgraded().get() ? "" : "(classic)") : "(?)")).sorted().collect(Collectors.joining(","));
        return found.type() + " " + found.groupState() + " " + found.partitionAssignor() + " members=" + members;
    }

    static String failure(Callable<?> call) {
        try { return String.valueOf(call.call()); }
        catch (ExecutionException e) { return e.getCause().getClass().getSimpleName(); }
        catch (Exception e) { return e.getClass().getSimpleName(); }
    }

    static Set<Integer> indexes(Member member) {
        return member.consumer.assignment().stream().map(TopicPartition::partition).collect(Collectors.toCollection(TreeSet::new));
    }

    static void say(String step, Object what) { System.out.println(step + " | " + String.valueOf(what).replace("-" + RUN, "")); System.out.flush(); }

    static void commits() throws Exception {
        String t = topic("commits", 1), g = group("commits");
        TopicPartition part = new TopicPartition(t, 0);
        produce(t, 10);
        try (Member m = new Member(g, "max.poll.records", "6").subscribe(t)) {
            say("commits read", m.read(6));
            m.consumer.commitSync();
            say("commits committed", m.consumer.committed(Set.of(part)).get(part).offset());
            m.consumer.commitSync(Map.of(part, new OffsetAndMetadata(4, "note")));
            say("commits note", m.consumer.committed(Set.of(part)).get(part).metadata());
            say("commits epoch", m.consumer.groupMetadata().generationId() > 0);
            say("commits outside", failure(() -> admin.alterConsumerGroupOffsets(g, Map.of(part, new OffsetAndMetadata(1))).all().get()));
            say("commits delete", failure(() -> admin.deleteConsumerGroups(List.of(g)).all().get()));
            say("commits delete offsets", failure(() -> admin.deleteConsumerGroupOffsets(g, Set.of(part)).all().get()));
            say("commits remove members", failure(() -> admin.removeMembersFromConsumerGroup(g, new RemoveMembersFromConsumerGroupOptions()).all().get()));
            m.close();
            say("commits told", m.told);
        }
        say("commits empty", described(g));
        try (Member m = new Member(g).subscribe(t)) {
            say("commits again", m.read(6));
            m.consumer.unsubscribe();
            say("commits unsubscribed", described(g));
        }
    }

    static void patterns() throws Exception {
        String a = topic("pattern-a", 1), b = topic("pattern-b", 2), g = group("patterns");
        topic("other", 1);
        try (Member m = new Member(g).subscribe(new SubscriptionPattern("pattern-[ab]-" + RUN))) {
            balance(List.of(m), 3);
            say("patterns held", m.consumer.assignment().stream().map(TopicPartition::topic).collect(Collectors.toCollection(TreeSet::new)));
            m.subscribe(new SubscriptionPattern("pattern-a-" + RUN));
            balance(List.of(m), 1);
            say("patterns fewer", m.consumer.assignment());
            m.consumer.unsubscribe();
            m.subscribe(b);
            balance(List.of(m), 2);
            say("patterns names", m.consumer.assignment().stream().map(TopicPartition::topic).collect(Collectors.toCollection(TreeSet::new)));
        }
        try (Member m = new Member(g).subscribe(new SubscriptionPattern("a("))) {
            say("patterns wrong", failure(() -> m.read(1)));
        }
    }

    static void statics() throws Exception {
        String t = topic("statics", 4), g = group("statics");
        Member one = new Member(g, "group.instance.id", "one").subscribe(t), two = new Member(g, "group.instance.id", "two").subscribe(t);
        balance(List.of(one, two), 2, 2);
        Set<Integer> before = indexes(one);
        say("statics described", described(g));
        try (Member other = new Member(g, "group.instance.id", "one").subscribe(t)) {
            say("statics same id", failure(() -> other.read(1)));
        }
        one.close();
        say("statics closed", described(g));
        one = new Member(g, "group.instance.id", "one").subscribe(t);
        balance(List.of(one, two), 2, 2);
        say("statics came back to its partitions", indexes(one).equals(before));
        say("statics told", one.told);
        say("statics removed", failure(() -> admin.removeMembersFromConsumerGroup(g, new RemoveMembersFromConsumerGroupOptions(Set.of(new MemberToRemove("two")))).all().get()));
        one.close();
        two.close();
    }

    static void rebalances(String assignor) throws Exception {
        String t = topic("rebalances-" + assignor, 6), g = group("rebalances-" + assignor);
        Member one = new Member(g, "group.remote.assignor", assignor).subscribe(t);
        balance(List.of(one), 6);
        Member two = new Member(g, "group.remote.assignor", assignor).subscribe(t);
        balance(List.of(one, two), 3, 3);
        Set<Integer> all = new TreeSet<>(indexes(one));
        all.addAll(indexes(two));
        say(assignor + " all", all);
        until(() -> { one.consumer.poll(Duration.ofMillis(50)); two.consumer.poll(Duration.ofMillis(50)); return failure(() -> described(g)).contains("STABLE") || failure(() -> described(g)).contains("Stable"); });
        say(assignor + " described", described(g));
                admin.createPartitions(Map.of(t, NewPartitions.increaseTo(8))).all().get();
        balance(List.of(one, two), 4, 4);
        one.close();
        balance(List.of(two), 8);
        say(assignor + " one left", two.held());
        two.consumer.close(CloseOptions.groupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP));
        say(assignor + " empty", described(g));
        say(assignor + " deleted", failure(() -> admin.deleteConsumerGroups(List.of(g)).all().get()));
        say(assignor + " gone", failure(() -> described(g)));
    }

    /** A classic consumer and one of the consumer protocol in the same group, which changes its type and back. */
    static void migrates() throws Exception {
        String t = topic("migrates", 4), g = group("migrates");
        TopicPartition part = new TopicPartition(t, 0);
        produce(t, 3);
        Member old = new Member(g, "group.protocol", "classic", "heartbeat.interval.ms", "300", "partition.assignment.strategy",
            "org.apache.kafka.clients.consumer.CooperativeStickyAssignor").subscribe(t);
        say("migrates read", old.read(3));
        old.consumer.commitSync();
        say("migrates classic", described(g));
        Member young = new Member(g).subscribe(t);
        balance(List.of(old, young), 2, 2);
        until(() -> { old.consumer.poll(Duration.ofMillis(50)); young.consumer.poll(Duration.ofMillis(50)); return failure(() -> described(g)).contains("Stable"); });
        say("migrates both", described(g));
        old.consumer.commitSync(Map.of(old.consumer.assignment().iterator().next(), new OffsetAndMetadata(1)));
        young.close();
        balance(List.of(old), 4);
        say("migrates back", described(g));
        say("migrates committed", old.consumer.committed(Set.of(part)).get(part).offset() > 0);
        old.close();
        say("migrates empty", described(g));
    }

    static void refusals() throws Exception {
        String t = topic("refusals", 1);
        try (Member m = new Member(group("refusals"), "group.remote.assignor", "nobody").subscribe(t)) {
            say("refusals assignor", failure(() -> m.read(1)));
        }
        try (Member m = new Member(name("refusals")).subscribe("no-such-topic-" + RUN)) {
            m.consumer.poll(Duration.ofSeconds(2));
            say("refusals missing topic", m.held() + " " + described(name("refusals")));
        }
    }

    public static void main(String[] args) throws Exception {
        bootstrap = args[0];
        admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
        commits();
        patterns();
        statics();
        rebalances("uniform");
        rebalances("range");
        migrates();
        refusals();
        admin.close();
    }
}
