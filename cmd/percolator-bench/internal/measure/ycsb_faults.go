package measure

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/ycsb"
)

// ycsbSessionLease is after how long the oracle knows that a client was killed.
const ycsbSessionLease = time.Second

// ycsbSetting is how a client of the closed economy with faults is set up.
type ycsbSetting struct {
	At        addresses
	Store     string
	Shape     ycsb.Shape
	Callers   int
	Seed      uint64
	LoseEvery int
}

// ycsbNews is what a client has done so far.
type ycsbNews struct{ Operations, Failed, Lost int64 }

// ycsbClient is the load of one client.
type ycsbClient struct {
	*ycsbLoad
	lost *lostAnswers
}

func (s ycsbSetting) client(ctx context.Context, e *environment) *ycsbClient {
	c := &ycsbClient{lost: &lostAnswers{every: int64(s.LoseEvery)}}
	store := e.bigtable(ctx, s.Store, s.Shape.Fields, c.lost)
	for _, w := range ycsb.Workloads() {
		if w.Economy() {
			c.ycsbLoad = newYCSBLoad(w, ycsb.NewData(s.Shape), store, s.Callers, s.Seed)
		}
	}
	c.suffers = true
	return c
}

func (c *ycsbClient) news() ycsbNews {
	n := ycsbNews{Failed: c.failed.Load(), Lost: c.lost.lost.Load()}
	for kind := range c.counts {
		n.Operations += c.counts[kind].Load()
	}
	return n
}

// ycsbPart is the process of a client, which operates until it is killed.
func ycsbPart(ctx context.Context, s ycsbSetting, l *lines) error {
	e := connectEnvironment(ctx, s.At)
	c := s.client(ctx, e)
	if e.err == nil {
		e.background(ctx, func(ctx context.Context) error {
			return c.run(ctx, func() bool { return ctx.Err() == nil })
		})
	}
	return answer(l, e, func(struct{}) (ycsbNews, error) { return c.news(), nil })
}

// breakClients runs the closed economy on a fresh store: with a client in this process, and others
// in processes of their own, which are killed one after the other while they operate. All lose
// answers.
func (b *ycsbBenchmark) breakClients(ctx context.Context, r *run, name string, repetition int, all ycsbFigures) (err error) {
	s, err := b.open(ctx, name, r.emulator)
	if err != nil {
		return err
	}
	defer s.closeInto(&err)
	shape := b.shape()
	shape.Records = 1
	if err := ycsb.Load(ctx, s, ycsb.NewData(shape), b.Callers); err != nil {
		return fmt.Errorf("loading: %w", err)
	}
	setting := ycsbSetting{s.at, name, shape, b.Callers, b.Seed + uint64(repetition)<<32, b.LoseEvery}
	here := setting.client(ctx, s.environment)
	if s.err != nil {
		return s.err
	}
	var over atomic.Bool
	ended := make(chan error, 1)
	go func() { ended <- here.run(ctx, func() bool { return !over.Load() }) }()
	sum, err := s.killAll(ctx, setting, b.Kills, int64(b.KillAfter))
	over.Store(true) // who meets what the dead have left behind gets past it
	if err := errors.Join(err, <-ended); err != nil {
		return err
	}
	sum.add(here.news())
	score, err := ycsb.Score(ctx, s, b.Accounts, sum.Operations)
	if err == nil && score > 0 && name == ycsbOurs {
		r.failed = errors.Join(r.failed, fmt.Errorf("with faults the sum of all accounts has changed: score %v", score))
	}
	f := all.of(name, ycsbFaults)
	f.scores, f.operations = append(f.scores, score), append(f.operations, float64(sum.Operations))
	f.failed, f.lost = append(f.failed, float64(sum.Failed)), append(f.lost, float64(sum.Lost))
	f.killed = append(f.killed, float64(b.Kills))
	return err
}

func (n *ycsbNews) add(more ycsbNews) {
	n.Operations, n.Failed, n.Lost = n.Operations+more.Operations, n.Failed+more.Failed, n.Lost+more.Lost
}

// killAll starts clients, one after the other, and kills each of them.
func (s *ycsbStore) killAll(ctx context.Context, setting ycsbSetting, kills int, after int64) (sum ycsbNews, err error) {
	for range kills {
		setting.Seed += 1 << 16
		n, err := s.killOne(ctx, setting, after)
		if err != nil {
			return sum, err
		}
		sum.add(n)
	}
	return sum, nil
}

// killOne starts a client and kills it when it has made so many operations and lost an answer.
func (s *ycsbStore) killOne(ctx context.Context, setting ycsbSetting, after int64) (n ycsbNews, err error) {
	p := s.part(ctx, "ycsb-client", setting, nil)
	if s.err != nil {
		return n, s.err
	}
	for n.Operations+n.Failed < after || n.Lost == 0 {
		if err := p.ask(struct{}{}, &n); err != nil {
			return n, err
		}
		if pause(ctx, time.Millisecond); ctx.Err() != nil {
			return n, ctx.Err()
		}
	}
	return n, p.kill()
}

// lostAnswers loses every so many-th answer to a write of users' tables: it was applied, and the
// client gets Unavailable. It stands below everything that retries. nil loses none.
type lostAnswers struct {
	every      int64
	turn, lost atomic.Int64
}

var errLostAnswer = status.Error(codes.Unavailable, "the benchmark has lost the answer")

func (l *lostAnswers) options() []option.ClientOption {
	if l == nil {
		return nil
	}
	return intercepted(l.unary, l.stream)
}

func (l *lostAnswers) loses() bool {
	if l.turn.Add(1)%l.every != 0 {
		return false
	}
	l.lost.Add(1)
	return true
}

func (l *lostAnswers) unary(ctx context.Context, method string, req, resp any, conn *grpc.ClientConn,
	invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	err := invoke(ctx, method, req, resp, conn, opts...)
	table := ""
	switch q := req.(type) {
	case *btpb.CheckAndMutateRowRequest:
		table = q.TableName
	case *btpb.MutateRowRequest:
		table = q.TableName
	}
	if err == nil && table != "" && !ownTable(table) && l.loses() {
		return errLostAnswer
	}
	return err
}

func (l *lostAnswers) stream(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string,
	open grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	s, err := open(ctx, desc, conn, method, opts...)
	if err == nil && method == btpb.Bigtable_MutateRows_FullMethodName {
		s = &lostStream{ClientStream: s, l: l}
	}
	return s, err
}

// lostStream is a bulk mutation whose answers may be lost.
type lostStream struct {
	grpc.ClientStream
	l       *lostAnswers
	exempts bool
}

// SendMsg implements grpc.ClientStream.
func (s *lostStream) SendMsg(m any) error {
	if q, ok := m.(*btpb.MutateRowsRequest); ok {
		s.exempts = ownTable(q.TableName)
	}
	return s.ClientStream.SendMsg(m)
}

// RecvMsg reads the stream to its end before it loses it: then all of it was applied.
func (s *lostStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err != nil || s.exempts || !s.l.loses() {
		return err
	}
	for err == nil {
		err = s.ClientStream.RecvMsg(m)
	}
	return errLostAnswer
}
