//go:build linux

package tso

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/protobuf/proto"

	"github.com/gopercolator/percolator/tso/tsopb"
)

// hostile is an attack, which goes on until its context ends.
type hostile struct {
	name   string
	tls    bool // the server asks for certificates
	attack func(ctx context.Context, b *testing.B, address string)
}

var hostiles = []hostile{
	{"none", false, func(ctx context.Context, _ *testing.B, _ string) { <-ctx.Done() }},
	{"waiting calls", false, waitingCalls},
	{"silent connections", true, silentConnections},
	{"cancelled takers", false, cancelledTakers},
	{"unfinished messages", false, unfinishedMessages(64, 256, 65_000)},
	{"unfinished messages of 150 connections", false, unfinishedMessages(150, 256, 65_000)},
	{"unfinished messages in single bytes", false, unfinishedMessages(64, 256, 1)},
	{"unread answers", false, unreadAnswers(8, tsopb.Sessions_EndedSessions_FullMethodName, endedSessions())},
	{"unread answers of 1,000 connections", false, unreadAnswers(1000, tsopb.Sessions_EndedSessions_FullMethodName, endedSessions())},
	{"unread timestamps of 1,000 connections", false, unreadAnswers(1000, tsopb.Oracle_Next_FullMethodName, &tsopb.NextRequest{Count: 1})},
	{"sessions", false, manySessions},
	{"calls", false, manyCalls},
}

// BenchmarkHostile measures what an honest client gets beside an attack, of a server in a process
// of its own with one core: timestamps and how long each takes, how soon a new client gets its
// first, the memory of the server, and how long it takes to end. Use -benchtime 1x, and ulimit -n
// 20000.
func BenchmarkHostile(b *testing.B) {
	const settle, measure = 3 * time.Second, 6 * time.Second
	for _, h := range hostiles {
		b.Run(h.name, func(b *testing.B) {
			var files TLSFiles
			var opts []DialOption
			if h.tls {
				d := newTLSDir(b)
				files, opts = d.server, []DialOption{WithTransportCredentials(d.clientCreds(b))}
			}
			p := startAttacked(b, files)
			client, err := Dial(b.Context(), p.address, append(opts, WithTimeout(time.Minute))...)
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = client.Close() })
			before, _ := honest(b, client, measure)
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			var attacking sync.WaitGroup
			attacking.Go(func() { h.attack(ctx, b, p.address) })
			time.Sleep(settle)
			b.ReportMetric(float64(newcomer(b, p.address, opts).Microseconds())/1000, "newcomer-ms")
			rate, p99 := honest(b, client, measure)
			b.ReportMetric(rate, "timestamps/s")
			b.ReportMetric(100*rate/before, "%-of-rate")
			b.ReportMetric(float64(p99.Microseconds())/1000, "p99-ms")
			b.ReportMetric(p.peakMB(), "peak-MB")
			b.ReportMetric(p.terminate().Seconds(), "exit-s")
			cancel()
			attacking.Wait()
		})
	}
}

// newcomer returns how long a new client takes to its first timestamp.
func newcomer(b *testing.B, address string, opts []DialOption) time.Duration {
	started := time.Now()
	client, err := Dial(b.Context(), address, append(opts, WithTimeout(time.Minute))...)
	if err != nil {
		b.Logf("a new client does not get in: %v", err)
		return time.Since(started)
	}
	took := time.Since(started)
	_ = client.Close()
	return took
}

// honest takes timestamps for a while and returns how many a second, and the 99th percentile of the
// time for each.
func honest(b *testing.B, client *Client, during time.Duration) (rate float64, p99 time.Duration) {
	const callers = 64
	ctx, cancel := context.WithTimeout(b.Context(), during)
	defer cancel()
	took := make([][]time.Duration, callers)
	var wg sync.WaitGroup
	for i := range took {
		wg.Go(func() {
			for ctx.Err() == nil {
				started := time.Now()
				_, _ = client.Next(ctx) // what the end has cut short counts as long as it took
				took[i] = append(took[i], time.Since(started))
			}
		})
	}
	wg.Wait()
	all := slices.Concat(took...)
	slices.Sort(all)
	return float64(len(all)) / during.Seconds(), all[len(all)*99/100]
}

// eachConnection runs f for connections at once, and again a while after it has failed.
func eachConnection(ctx context.Context, connections int, f func(ctx context.Context, conn net.Conn) error, address string) {
	var wg sync.WaitGroup
	for range connections {
		wg.Go(func() {
			for ctx.Err() == nil {
				if conn, err := dialerFrom(attackerHost).DialContext(ctx, "tcp", address); err == nil {
					stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
					_ = f(ctx, conn)
					stop()
					_ = conn.Close()
				}
				_ = sleep(ctx, time.Second)
			}
		})
	}
	wg.Wait()
}

func silentConnections(ctx context.Context, _ *testing.B, address string) {
	eachConnection(ctx, 4200, func(_ context.Context, conn net.Conn) error {
		_, err := io.Copy(io.Discard, conn)
		return err
	}, address)
}

// takers are calls that wait for hints, on 64 connections, of which each begins again when it has
// ended.
func takers(ctx context.Context, b *testing.B, address string, calls int, topics []uint64, pause time.Duration) {
	const connections = 64
	req := &tsopb.TakeHintsRequest{Topics: topics, Most: 1, WaitMs: maxHintWait.Milliseconds()}
	var wg sync.WaitGroup
	for range connections {
		client := tsopb.NewHintsClient(connectFrom(b, attackerHost, address))
		for range calls / connections {
			wg.Go(func() {
				for ctx.Err() == nil {
					_, _ = client.TakeHints(ctx, req)
					_ = sleep(ctx, pause)
				}
			})
		}
	}
	wg.Wait()
}

func waitingCalls(ctx context.Context, b *testing.B, address string) {
	takers(ctx, b, address, 64*256, []uint64{1}, time.Second)
}

// cancelledTakers cancels calls on the same topics all at once, and begins again.
func cancelledTakers(ctx context.Context, b *testing.B, address string) {
	topics := make([]uint64, maxHintTopics)
	for i := range topics {
		topics[i] = uint64(i)
	}
	for ctx.Err() == nil {
		round, cancel := context.WithTimeout(ctx, 4*time.Second)
		takers(round, b, address, 15_000, topics, time.Second)
		cancel()
	}
}

// unfinishedMessages begins calls and sends all of their messages but the end, in frames of some
// length, on every stream of every connection, and again when the server has ended them.
func unfinishedMessages(connections, streams, frame int) func(context.Context, *testing.B, string) {
	const size = 65_000
	return func(ctx context.Context, _ *testing.B, address string) {
		eachConnection(ctx, connections, func(ctx context.Context, conn net.Conn) error {
			go func() { _, _ = io.Copy(io.Discard, conn) }()
			out := bufio.NewWriterSize(conn, 64<<10) // the attack costs this machine little
			framer, err := introduce(conn, out)
			if err != nil {
				return err
			}
			begin := binary.BigEndian.AppendUint32([]byte{0}, size)
			for stream := uint32(1); ; {
				for range streams {
					if err := beginCall(framer, stream, tsopb.Hints_LeaveHints_FullMethodName); err != nil {
						return err
					}
					if err := writeFrames(framer, stream, append(begin, make([]byte, size-1)...), frame); err != nil {
						return err
					}
					stream += 2
				}
				if err := errors.Join(out.Flush(), sleep(ctx, 2*time.Second)); err != nil {
					return err
				}
			}
		}, address)
	}
}

// unreadAnswers makes calls on every stream of every connection, and gives no window for the
// answers.
func unreadAnswers(connections int, method string, req proto.Message) func(context.Context, *testing.B, string) {
	return func(ctx context.Context, b *testing.B, address string) {
		message := framed(b, req)
		eachConnection(ctx, connections, func(_ context.Context, conn net.Conn) error {
			framer, err := introduce(conn, conn)
			if err == nil {
				err = framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
			}
			if err != nil {
				return err
			}
			go func() {
				for i := range 100 {
					if callUnread(framer, uint32(2*i+1), method, message) != nil {
						return
					}
				}
			}()
			_, err = io.Copy(io.Discard, conn) // until the server ends it
			return err
		}, address)
	}
}

// manySessions opens as many sessions as it gets, and renews them.
func manySessions(ctx context.Context, b *testing.B, address string) {
	var wg sync.WaitGroup
	for range 64 {
		client := tsopb.NewSessionsClient(connectFrom(b, attackerHost, address))
		wg.Go(func() {
			var ids []string
			for ctx.Err() == nil {
				if resp, err := client.OpenSession(ctx, &tsopb.OpenSessionRequest{}); err == nil {
					ids = append(ids, resp.GetId())
					continue
				}
				for _, id := range ids {
					_, _ = client.KeepAlive(ctx, &tsopb.KeepAliveRequest{Id: id})
				}
				_ = sleep(ctx, time.Second)
			}
		})
	}
	wg.Wait()
}

// manyCalls asks for timestamps as fast as it can.
func manyCalls(ctx context.Context, b *testing.B, address string) {
	var wg sync.WaitGroup
	for range 64 {
		client := tsopb.NewOracleClient(connectFrom(b, attackerHost, address))
		for range 64 {
			wg.Go(func() {
				for ctx.Err() == nil {
					_, _ = client.Next(ctx, &tsopb.NextRequest{Count: 1})
				}
			})
		}
	}
	wg.Wait()
}
