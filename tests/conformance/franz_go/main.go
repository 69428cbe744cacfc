// A client on franz-go for test_franz_go.py: it does what its first argument says and prints one JSON object a line.
//
//	franz_go COMMAND BOOTSTRAP TOPIC GROUP COUNT
//
// The test has made the topic, its records and the group's configuration, and judges what is printed. Whatever goes
// wrong ends the program with exit code 1 and the reason on standard error. FRANZ_GO_ACCESS is a JSON object with what a
// secured broker asks for: "ca" (a file), "user", "password", "mechanism".
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const (
	patience    = 30 * time.Second
	renewEvery  = 600 * time.Millisecond
	renewals    = 3
	strictLimit = 7
)

// job is what the command line says.
type job struct {
	bootstrap, topic, group string
	count                   int
}

var commands = map[string]func(context.Context, job) error{
	"consume":  consume,
	"renew":    renew,
	"strict":   strict,
	"offsets":  offsets,
	"classic":  classic,
	"next":     next,
	"transact": transact,
	"produce":  produce,
	"throttle": throttle,
}

func main() {
	if len(os.Args) != 6 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: franz_go COMMAND BOOTSTRAP TOPIC GROUP COUNT")
		os.Exit(2)
	}
	count, err := strconv.Atoi(os.Args[5])
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		err = commands[os.Args[1]](ctx, job{os.Args[2], os.Args[3], os.Args[4], count})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func say(fields map[string]any) {
	line, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// newClient has what a secured broker asks for.
func newClient(j job, more ...kgo.Opt) (*kgo.Client, error) {
	options := []kgo.Opt{kgo.SeedBrokers(j.bootstrap)}
	if said := os.Getenv("FRANZ_GO_ACCESS"); said != "" {
		var access struct{ CA, User, Password, Mechanism string }
		if err := json.Unmarshal([]byte(said), &access); err != nil {
			return nil, err
		}
		if access.CA != "" {
			pem, err := os.ReadFile(access.CA)
			if err != nil {
				return nil, err
			}
			roots := x509.NewCertPool()
			if !roots.AppendCertsFromPEM(pem) {
				return nil, fmt.Errorf("no certificate in %s", access.CA)
			}
			options = append(options, kgo.DialTLSConfig(&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}))
		}
		mechanisms := map[string]sasl.Mechanism{
			"PLAIN":         plain.Auth{User: access.User, Pass: access.Password}.AsMechanism(),
			"SCRAM-SHA-256": scram.Auth{User: access.User, Pass: access.Password}.AsSha256Mechanism(),
			"SCRAM-SHA-512": scram.Auth{User: access.User, Pass: access.Password}.AsSha512Mechanism(),
			"OAUTHBEARER":   oauth.Auth{Token: access.Password}.AsMechanism(),
		}
		if mechanism := mechanisms[access.Mechanism]; mechanism != nil {
			options = append(options, kgo.SASL(mechanism))
		}
	}
	return kgo.NewClient(append(options, more...)...)
}

// shareClient is a member of the share group that prints the outcome of every acknowledgement.
func shareClient(j job, more ...kgo.Opt) (*kgo.Client, error) {
	options := append([]kgo.Opt{
		kgo.ConsumeTopics(j.topic),
		kgo.ShareGroup(j.group),
		kgo.ShareAckCallback(func(_ *kgo.Client, results kgo.ShareAckResults) {
			for _, one := range results {
				say(map[string]any{"acknowledged": one.Topic, "partition": one.Partition, "error": text(one.Err)})
			}
		}),
	}, more...)
	return newClient(j, options...)
}

func sayRecord(record *kgo.Record) {
	say(map[string]any{
		"value": string(record.Value), "offset": record.Offset, "count": record.DeliveryCount(),
	})
}

// poll answers the next records; fetch errors and the end of patience are errors.
func poll(ctx context.Context, client *kgo.Client) ([]*kgo.Record, error) {
	fetches := client.PollFetches(ctx)
	if err := fetches.Err(); err != nil {
		return nil, fmt.Errorf("polling: %w", err)
	}
	return fetches.Records(), nil
}

// consume accepts records but "release", which it releases the first time, and "reject", until it has seen `count`.
func consume(ctx context.Context, j job) error {
	client, err := shareClient(j)
	if err != nil {
		return err
	}
	defer client.Close()
	for seen := 0; seen < j.count; {
		records, err := poll(ctx, client)
		if err != nil {
			return err
		}
		for _, record := range records {
			sayRecord(record)
			switch value := string(record.Value); {
			case value == "release" && record.DeliveryCount() == 1:
				record.Ack(kgo.AckRelease)
			case value == "reject":
				record.Ack(kgo.AckReject)
			default:
				record.Ack(kgo.AckAccept)
			}
		}
		seen += len(records)
		if err := client.FlushAcks(ctx); err != nil {
			return err
		}
	}
	return nil
}

// renew holds its first record for longer than the lock lasts, and accepts it then.
func renew(ctx context.Context, j job) error {
	client, err := shareClient(j)
	if err != nil {
		return err
	}
	defer client.Close()
	records, err := poll(ctx, client)
	if err != nil {
		return err
	}
	if len(records) != 1 {
		return fmt.Errorf("%d records came, not one", len(records))
	}
	sayRecord(records[0])
	for range renewals {
		time.Sleep(renewEvery)
		records[0].Ack(kgo.AckRenew)
		if err := client.FlushAcks(ctx); err != nil {
			return err
		}
	}
	records[0].Ack(kgo.AckAccept)
	return client.FlushAcks(ctx)
}

// strict polls with a limit that holds, and prints how many records each poll gave.
func strict(ctx context.Context, j job) error {
	client, err := shareClient(j, kgo.ShareMaxRecords(strictLimit), kgo.ShareMaxRecordsStrict())
	if err != nil {
		return err
	}
	defer client.Close()
	for seen := 0; seen < j.count; {
		records, err := poll(ctx, client)
		if err != nil {
			return err
		}
		if len(records) == 0 {
			continue
		}
		say(map[string]any{"polled": len(records), "first": records[0].Offset})
		seen += len(records)
		client.MarkAcks(kgo.AckAccept)
		if err := client.FlushAcks(ctx); err != nil {
			return err
		}
	}
	return nil
}

// offsets describes the share group, moves its start offset to `count`, deletes its offsets and then the group.
func offsets(ctx context.Context, j job) error {
	client, err := newClient(j)
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	described, err := admin.DescribeShareGroups(ctx, j.group)
	if err != nil {
		return err
	}
	group := described[j.group]
	say(map[string]any{"state": group.GroupState, "assignor": group.Assignor, "members": len(group.Members)})
	if err := sayOffsets(ctx, admin, j); err != nil {
		return err
	}
	var target kadm.Offsets
	target.AddOffset(j.topic, 0, int64(j.count), -1)
	altered, err := admin.AlterShareGroupOffsets(ctx, j.group, target)
	if err != nil {
		return err
	}
	say(map[string]any{"altered": text(altered[j.topic][0])})
	if err := sayOffsets(ctx, admin, j); err != nil {
		return err
	}
	deleted, err := admin.DeleteShareGroupOffsets(ctx, j.group, j.topic)
	if err != nil {
		return err
	}
	say(map[string]any{"deleted": text(deleted[j.topic])})
	gone, err := admin.DeleteGroups(ctx, j.group)
	if err != nil {
		return err
	}
	say(map[string]any{"group deleted": text(gone[j.group].Err)})
	listed, err := admin.ListGroups(ctx)
	if err != nil {
		return err
	}
	_, there := listed[j.group]
	say(map[string]any{"listed": there})
	return nil
}

func sayOffsets(ctx context.Context, admin *kadm.Client, j job) error {
	all, err := admin.DescribeShareGroupOffsets(ctx, j.group)
	if err != nil {
		return err
	}
	offset, found := all[j.group].Offsets.Lookup(j.topic, 0)
	say(map[string]any{"found": found, "start": offset.StartOffset, "lag": offset.Lag})
	return nil
}

// groupClient is a member of an ordinary group that commits by hand.
func groupClient(j job, more ...kgo.Opt) (*kgo.Client, error) {
	options := append([]kgo.Opt{
		kgo.ConsumeTopics(j.topic),
		kgo.ConsumerGroup(j.group),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
	}, more...)
	return newClient(j, options...)
}

// readAndCommit prints `count` records, and commits the last.
func readAndCommit(ctx context.Context, client *kgo.Client, j job) error {
	var last *kgo.Record
	for seen := 0; seen < j.count; {
		records, err := poll(ctx, client)
		if err != nil {
			return err
		}
		for _, record := range records {
			say(map[string]any{"value": string(record.Value), "offset": record.Offset})
			last = record
		}
		seen += len(records)
	}
	if last == nil {
		return errors.New("nothing was read")
	}
	return client.CommitRecords(ctx, last)
}

// member has read and committed as a member of an ordinary group, and stays one: it answers an admin on its connections.
func member(ctx context.Context, j job, more ...kgo.Opt) (*kadm.Client, error) {
	client, err := groupClient(j, more...)
	if err != nil {
		return nil, err
	}
	if err := readAndCommit(ctx, client, j); err != nil {
		client.Close()
		return nil, err
	}
	return kadm.NewClient(client), nil
}

// next does as classic does, by the protocol of KIP-848, and prints what the broker says of the group.
func next(ctx context.Context, j job) error {
	admin, err := member(ctx, j, kgo.ServerSideBalancer(), kgo.Balancers(kgo.RangeBalancer()))
	if err != nil {
		return err
	}
	defer admin.Close()
	described, err := admin.DescribeConsumerGroups(ctx, j.group)
	if err != nil {
		return err
	}
	group := described[j.group]
	committed, err := admin.FetchOffsets(ctx, j.group)
	if err != nil {
		return err
	}
	offset, _ := committed.Lookup(j.topic, 0)
	say(map[string]any{
		"state": group.State, "assignor": group.AssignorName, "members": len(group.Members), "committed": offset.At,
	})
	return nil
}

// transact commits a record in one transaction and aborts another, has the producer fenced by a second one with its
// id, and reads what is committed.
func transact(ctx context.Context, j job) error {
	ends := func(value string, how kgo.TransactionEndTry, client *kgo.Client) error {
		if err := client.BeginTransaction(); err != nil {
			return err
		}
		record := &kgo.Record{Topic: j.topic, Value: []byte(value)}
		if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
			return err
		}
		return client.EndTransaction(ctx, how)
	}
	first, err := newClient(j, kgo.TransactionalID(j.group))
	if err != nil {
		return err
	}
	defer first.Close()
	if err := ends("aborted", kgo.TryAbort, first); err != nil {
		return err
	}
	if err := ends("committed", kgo.TryCommit, first); err != nil {
		return err
	}
	second, err := newClient(j, kgo.TransactionalID(j.group))
	if err != nil {
		return err
	}
	defer second.Close()
	if err := ends("of the second", kgo.TryCommit, second); err != nil {
		return err
	}
	say(map[string]any{"fenced": ends("of the first", kgo.TryCommit, first) != nil})
	reader, err := groupClient(j, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		return err
	}
	defer reader.Close()
	return readAndCommit(ctx, reader, j)
}

// produce writes one record, and prints what became of it.
func produce(ctx context.Context, j job) error {
	client, err := newClient(j)
	if err != nil {
		return err
	}
	defer client.Close()
	err = client.ProduceSync(ctx, &kgo.Record{Topic: j.topic, Value: []byte("new")}).FirstErr()
	say(map[string]any{"produced": text(err)})
	return nil
}

// throttle writes `count` bytes twice, and prints for how long the broker asks it to wait.
func throttle(ctx context.Context, j job) error {
	waits := make(throttles, 16)
	client, err := newClient(j, kgo.WithHooks(waits), kgo.ClientID(j.group), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		return err
	}
	defer client.Close()
	for range 2 {
		if err := client.ProduceSync(ctx, &kgo.Record{Topic: j.topic, Value: make([]byte, j.count)}).FirstErr(); err != nil {
			return err
		}
	}
	select {
	case wait := <-waits:
		say(map[string]any{"throttled": wait > 0})
	default:
		say(map[string]any{"throttled": false})
	}
	return nil
}

type throttles chan time.Duration

// OnBrokerThrottle is called by the client for each answer that says so.
func (t throttles) OnBrokerThrottle(_ kgo.BrokerMetadata, interval time.Duration, _ bool) {
	select {
	case t <- interval:
	default:
	}
}

// classic reads `count` records as a member of an ordinary group, commits, and prints the group's lag.
func classic(ctx context.Context, j job) error {
	admin, err := member(ctx, j)
	if err != nil {
		return err
	}
	defer admin.Close()
	lags, err := admin.Lag(ctx, j.group)
	if err != nil {
		return err
	}
	group := lags[j.group]
	say(map[string]any{
		"state": group.State, "protocol": group.Protocol, "members": len(group.Members), "lag": group.Lag.Total(),
	})
	return nil
}
