//go:build unix

package emulator_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"
	"time"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/tso"
)

// The child of the crash tests: this test binary, run again, commits one transaction. Before it sends a request and after it got the
// answer it says so on a pipe, and waits until its parent lets it go on.

// crashChildEnv carries a crashOrder to the child.
const crashChildEnv = "PERCOLATOR_TEST_CRASH_CHILD"

// crashPipe is the child's descriptor for what it reports.
const crashPipe = 3

// crashLimit bounds a child and its parent's waiting for it.
const crashLimit = time.Minute

// crashOrder is what the child is to do.
type crashOrder struct {
	Store, Oracle     string // addresses
	Project, Instance string
	Prefix            string // of the rows
	OneByOne          bool   // prewrites are not sent in parallel
}

// crashReport is a line from the child.
type crashReport struct {
	Seq   int    // of a request that waits for permission, before or after it is sent
	After bool   // it has been answered
	Role  string // of the request, as crashRole names it; "result" when the transaction is over
	Row   string // table/row

	Start    tso.Timestamp // with "begun" and "result"
	Commit   tso.Timestamp
	Conflict bool   // errors.Is(err, ErrConflict)
	Unknown  bool   // errors.Is(err, ErrOutcomeUnknown)
	Error    string // what Commit returned
}

// TestCrashChild is the child; in any other process it has nothing to do.
func TestCrashChild(t *testing.T) {
	encoded := os.Getenv(crashChildEnv)
	if encoded == "" {
		return
	}
	var order crashOrder
	if err := json.Unmarshal([]byte(encoded), &order); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), crashLimit)
	defer cancel()
	gate := newCrashGate(os.NewFile(crashPipe, "reports"), os.Stdin)
	oracle, err := tso.Dial(ctx, order.Oracle)
	if err != nil {
		t.Fatal(err)
	}
	defer oracle.Close()
	cfg := percolator.Config{Project: order.Project, Instance: order.Instance, Oracle: gatedOracle{oracle, gate}}
	if order.OneByOne {
		cfg.MaxParallelism = 1
	}
	c, err := percolator.NewClient(ctx, cfg, append(emulator.Connect(order.Store),
		option.WithGRPCDialOption(grpc.WithChainUnaryInterceptor(gate.unary)),
		option.WithGRPCDialOption(grpc.WithChainStreamInterceptor(gate.stream)))...)
	if err != nil {
		t.Fatal(err)
	}
	gate.close()
	result := crashReport{Role: "result"}
	result.Start, result.Commit, err = crashTransaction(ctx, c, gate, order.Prefix)
	if err != nil {
		result.Error = err.Error()
		result.Conflict, result.Unknown = errors.Is(err, percolator.ErrConflict), errors.Is(err, percolator.ErrOutcomeUnknown)
	}
	gate.say(result)
	if err := c.Close(); err != nil { // phase two
		t.Error(err)
	}
}

// crashTransaction reads the three cells and then writes them; P is the primary.
func crashTransaction(ctx context.Context, c *percolator.Client, gate *crashGate, prefix string) (start, commit tso.Timestamp, err error) {
	tx, err := c.Begin(ctx)
	if err != nil {
		return 0, 0, err
	}
	gate.say(crashReport{Role: "begun", Start: tx.StartTimestamp()})
	var cells []percolator.Cell
	for _, name := range crashCells {
		cells = append(cells, crashCell(prefix, name))
	}
	if _, err := tx.GetMulti(ctx, cells...); err != nil {
		return tx.StartTimestamp(), 0, err
	}
	for _, cell := range cells {
		if err := tx.Set(cell, []byte("new")); err != nil {
			return tx.StartTimestamp(), 0, err
		}
	}
	commit, err = tx.Commit(ctx)
	return tx.StartTimestamp(), commit, err
}

// crashGate stands before and behind each request. It is open until close, so that the client can connect.
type crashGate struct {
	mu      sync.Mutex
	out     *json.Encoder
	shut    bool
	seq     int
	waiting map[int]chan struct{}
}

func newCrashGate(out io.Writer, in io.Reader) *crashGate {
	g := &crashGate{out: json.NewEncoder(out), waiting: map[int]chan struct{}{}}
	go func() {
		lines := bufio.NewScanner(in)
		for lines.Scan() {
			var seq int
			if _, err := fmt.Sscan(lines.Text(), &seq); err != nil {
				break
			}
			g.mu.Lock()
			if wait := g.waiting[seq]; wait != nil {
				close(wait)
				delete(g.waiting, seq)
			}
			g.mu.Unlock()
		}
		os.Exit(1) // the parent is gone
	}()
	return g
}

func (g *crashGate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = true
}

// say reports without waiting.
func (g *crashGate) say(r crashReport) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.out.Encode(r); err != nil {
		os.Exit(1)
	}
}

// pass reports and waits for permission.
func (g *crashGate) pass(r crashReport) {
	g.mu.Lock()
	if !g.shut {
		g.mu.Unlock()
		return
	}
	g.seq++
	r.Seq = g.seq
	wait := make(chan struct{})
	g.waiting[r.Seq] = wait
	g.mu.Unlock()
	g.say(r)
	<-wait
}

func (g *crashGate) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	r, ok := crashRequest(req)
	if !ok {
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	g.pass(r)
	err := invoke(ctx, method, req, reply, cc, opts...)
	r.After = true
	g.pass(r)
	return err
}

func (g *crashGate) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := open(ctx, desc, cc, method, opts...)
	if err != nil {
		return nil, err
	}
	return &gatedStream{ClientStream: s, gate: g}, nil
}

// gatedStream is a request with a stream of answers.
type gatedStream struct {
	grpc.ClientStream
	gate    *crashGate
	request crashReport
	known   bool
}

func (s *gatedStream) SendMsg(m any) error {
	if s.request, s.known = crashRequest(m); s.known {
		s.gate.pass(s.request)
	}
	return s.ClientStream.SendMsg(m)
}

func (s *gatedStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err != nil && s.known { // the end of the stream, as a rule
		s.known = false
		s.request.After = true
		s.gate.pass(s.request)
	}
	return err
}

// gatedOracle is the oracle behind the gate.
type gatedOracle struct {
	tso.Oracle
	gate *crashGate
}

func (o gatedOracle) Next(ctx context.Context) (tso.Timestamp, error) {
	o.gate.pass(crashReport{Role: "timestamp"})
	ts, err := o.Oracle.Next(ctx)
	o.gate.pass(crashReport{Role: "timestamp", After: true})
	return ts, err
}

// crashRequest describes a request to the store; others are of no interest.
func crashRequest(m any) (r crashReport, ok bool) {
	switch m := m.(type) {
	case *btpb.CheckAndMutateRowRequest:
		r = crashReport{Role: "other", Row: crashRow(m.TableName, m.RowKey)}
		switch {
		case crashSets(m.FalseMutations, "lock"):
			r.Role = "prewrite"
		case crashSets(m.FalseMutations, "write"):
			r.Role = "roll back"
		case crashSets(m.TrueMutations, "write"):
			r.Role = "commit"
		case crashSets(m.TrueMutations, "lock"):
			r.Role = "refresh"
		}
		return r, true
	case *btpb.MutateRowsRequest:
		r = crashReport{Role: "erase", Row: crashRow(m.TableName, m.Entries[0].RowKey)}
		if crashSets(m.Entries[0].Mutations, "write") {
			r.Role = "phase two"
		}
		return r, true
	case *btpb.ReadRowsRequest:
		keys := m.Rows.GetRowKeys()
		if len(keys) == 0 {
			keys = [][]byte{nil}
		}
		return crashReport{Role: "read", Row: crashRow(m.TableName, keys[0])}, true
	}
	return r, false
}

func crashSets(ms []*btpb.Mutation, family string) bool {
	for _, m := range ms {
		if m.GetSetCell().GetFamilyName() == family {
			return true
		}
	}
	return false
}
