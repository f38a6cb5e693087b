package main

import (
	"context"
	"path"
	"strings"
	"sync"
	"testing"

	"cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/percolator"
)

// readRanges records which ranges of users' tables, and of those of indexes, are read.
type readRanges struct {
	mu    sync.Mutex
	names []string
	reads int // of anything
}

func (r *readRanges) option() option.ClientOption {
	return option.WithGRPCDialOption(grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		s, err := open(ctx, desc, cc, method, opts...)
		return readStream{s, r}, err
	}))
}

// take returns what was recorded, and forgets it.
func (r *readRanges) take() (names []string, reads int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	names, reads = r.names, r.reads
	r.names, r.reads = nil, 0
	return names, reads
}

type readStream struct {
	grpc.ClientStream
	r *readRanges
}

func (s readStream) SendMsg(m any) error {
	s.r.mu.Lock()
	switch m := m.(type) {
	case *bigtablepb.ReadRowsRequest:
		s.r.reads++
		table := path.Base(m.GetTableName())
		if !strings.HasPrefix(table, "percolator_") && (len(m.GetRows().GetRowRanges()) > 0 || len(m.GetRows().GetRowKeys()) == 0) {
			s.r.names = append(s.r.names, table)
		}
	case *bigtablepb.SampleRowKeysRequest:
		s.r.names = append(s.r.names, "samples of "+path.Base(m.GetTableName()))
	}
	s.r.mu.Unlock()
	return s.ClientStream.SendMsg(m)
}

// Commands that look for unfinished work go by the journal: they read the rows that entries name,
// and no range of a user's table unless --scan asks for it.
func TestListsReadNoTable(t *testing.T) {
	t.Parallel()
	cl := newCluster(t, cellSchema())
	cl.set(map[percolator.Cell]string{
		{Table: "documents", Row: "waiting", Column: "contents"}: "1", {Table: "documents", Row: "waiting", Column: "url"}: "u", {Table: "accounts", Row: "a", Column: "c"}: "1",
	})
	r := new(readRanges)
	cl.options = append(cl.options, r.option())
	for _, args := range [][]string{
		{"locks", "ls"}, {"locks", "ls", "documents"}, {"locks", "ls", "--older-than", "1m"}, {"locks", "resolve", "documents", "--yes"},
		{"notify", "ls"}, {"notify", "ls", "documents"}, {"notify", "ls", "--parked"}, {"notify", "retry", "--observer", "index", "--dry-run"},
		{"journal", "ls"}, {"workers", "ls"}, {"gc", "status"}, {"row", "documents", "waiting"}, {"check"},
	} {
		got := cl.run(args...)
		names, reads := r.take()
		if len(names) > 0 || reads == 0 {
			t.Errorf("%v read %d times, of these ranges of %v", args, reads, names)
		}
		if got.code == cli.ExitUsage {
			t.Errorf("%v: %s", args, got.stderr)
		}
	}
	cl.must(cli.ExitOK, "locks", "ls", "documents", "--scan")
	if names, _ := r.take(); len(names) == 0 {
		t.Error("--scan reads no range: these requests are not seen")
	}
}
