package main

import (
	"context"
	"encoding/hex"
	"slices"
	"strings"
	"sync"
	"testing"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
)

// TestJournalSession: streams and their entries, a row of a stream that cannot be decoded, and the
// entries that name a row.
func TestJournalSession(t *testing.T) {
	t.Parallel()
	cl := troubled(t)
	list := func() []admin.JournalStream {
		t.Helper()
		all, _, err := admin.New(cl.client).JournalStreams(t.Context(), 100)
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(all, func(a, b admin.JournalStream) int { return a.Opened.Compare(b.Opened) })
		return all
	}
	s := session{c: cl}
	first := list()[0].ID
	cl.set(map[percolator.Cell]string{{Table: "people", Row: "Zoe", Column: "mail"}: "zoe@example.com"})
	id, err := hex.DecodeString(first)
	if err != nil {
		t.Fatal(err)
	}
	cl.plant(model.JournalTable, string(id)+"\x00\x00\x00\x00\x00\x00\x00\x03", "journal", "batch", 0, "rubbish")
	s.run(cli.ExitOK, "journal", "ls")
	s.run(cli.ExitOK, "journal", "ls", "--stream", first, "--from", "2")
	s.run(cli.ExitOK, "journal", "ls", "--stream", first, "--from", "2", "--limit", "1")
	s.run(cli.ExitOK, "journal", "ls", "--stream", first, "--from", "2", "--limit", "1", "-o", "json")
	s.run(cli.ExitOK, "row", "accounts", "Tom", "--journal")
	s.run(cli.ExitOK, "row", "people", "Zoe", "--journal", "-o", "json")
	s.run(cli.ExitFailure, "locks", "ls")
	s.run(cli.ExitOK, "locks", "ls", "--scan", "people")
	s.run(cli.ExitOK, "check", "--only", "journal") // it reads the first unsettled row of each stream
	cl.plant(model.JournalTable, "\x41"+string(id), "journal", "session", 1e15, "rubbish")
	s.run(cli.ExitOK, "journal", "ls")
	s.run(cli.ExitFindings, "check", "--only", "journal")
	s.run(cli.ExitUsage, "journal", "ls", "--from", "2")
	s.run(cli.ExitUsage, "journal", "ls", "--limit", "0")
	s.run(cli.ExitUsage, "journal", "ls", "--stream", "1f")
	s.compare("journal.txt")
}

// TestListsReadNamedRows: lists of what is unfinished read no range of a user's table.
func TestListsReadNamedRows(t *testing.T) {
	t.Parallel()
	cl := troubled(t)
	ranges := &rangesRead{}
	cl.options = append(slices.Clone(cl.options), option.WithGRPCDialOption(grpc.WithChainStreamInterceptor(ranges.intercept)))
	for _, args := range [][]string{
		{"locks", "ls"}, {"locks", "ls", "accounts", "people.mail"}, {"locks", "resolve", "--dry-run"}, {"journal", "ls"},
		{"notify", "ls"}, {"notify", "ls", "accounts", "--parked"}, {"check", "--only", "locks,journal"}, {"row", "accounts", "Joe", "--journal"}, {"locks", "resolve", "--yes"},
	} {
		cl.must(cli.ExitOK, args...)
		if got := ranges.take(); len(got) > 0 {
			t.Errorf("percolator %s read ranges of %q", strings.Join(args, " "), got)
		}
	}
	cl.must(cli.ExitOK, "locks", "ls", "--scan")
	if got := ranges.take(); !slices.Equal(got, []string{"accounts", "people", "people.mail"}) {
		t.Errorf("with --scan it read ranges of %q", got)
	}
}

// rangesRead is the users' tables of which a range was read that has more than one row.
type rangesRead struct {
	mu     sync.Mutex
	tables []string
}

func (r *rangesRead) take() (tables []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	tables, r.tables = r.tables, nil
	slices.Sort(tables)
	return slices.Compact(tables)
}

func (r *rangesRead) intercept(
	ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	s, err := open(ctx, desc, cc, method, opts...)
	return &watchedStream{s, r}, err
}

type watchedStream struct {
	grpc.ClientStream

	seen *rangesRead
}

func (s *watchedStream) SendMsg(m any) error {
	if read, ok := m.(*btpb.ReadRowsRequest); ok {
		table := read.TableName[strings.LastIndexByte(read.TableName, '/')+1:]
		whole := len(read.GetRows().GetRowKeys()) == 0
		for _, rr := range read.GetRows().GetRowRanges() {
			whole = whole && string(rr.GetEndKeyOpen()) != string(rr.GetStartKeyClosed())+"\x00"
		}
		if whole && table != model.MetaTable && table != model.JournalTable {
			s.seen.mu.Lock()
			s.seen.tables = append(s.seen.tables, table)
			s.seen.mu.Unlock()
		}
	}
	return s.ClientStream.SendMsg(m)
}
