package emulator

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"cloud.google.com/go/bigtable"
	btapb "cloud.google.com/go/bigtable/admin/apiv2/adminpb"
	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

func save(t testing.TB, s *Server) ([]byte, Contents) {
	t.Helper()
	f := s.Freeze()
	defer f.Thaw()
	var out bytes.Buffer
	contents, err := f.Save(testContext(t), &out)
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), contents
}

func restore(t testing.TB, snapshot []byte) (*Server, Contents) {
	t.Helper()
	s, contents, err := Restore(testContext(t), bytes.NewReader(snapshot))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, contents
}

// variety fills an emulator with tables of two instances in which everything occurs that a snapshot
// has to keep.
func variety(t testing.TB, s *Server) {
	t.Helper()
	ctx, conn := testContext(t), dial(t, s.Addr())
	admin, data := btapb.NewBigtableTableAdminClient(conn), btpb.NewBigtableClient(conn)
	oneVersion := &btapb.GcRule{Rule: &btapb.GcRule_MaxNumVersions{MaxNumVersions: 1}}
	for _, table := range []*btapb.CreateTableRequest{
		{Parent: "projects/p/instances/one", TableId: "t", Table: &btapb.Table{
			ColumnFamilies: map[string]*btapb.ColumnFamily{"z": {}, "a": {}, "once": {GcRule: oneVersion}}, DeletionProtection: true,
		}},
		{Parent: "projects/p/instances/two", TableId: "t", Table: &btapb.Table{
			ColumnFamilies: map[string]*btapb.ColumnFamily{"f": {}}, Granularity: btapb.Table_MICROS,
		}},
		{Parent: "projects/p/instances/two", TableId: "empty"},
	} {
		if _, err := admin.CreateTable(ctx, table); err != nil {
			t.Fatal(err)
		}
	}
	set := func(table, row, family, column string, micros int64, value string) {
		t.Helper()
		_, err := data.MutateRow(ctx, &btpb.MutateRowRequest{TableName: table, RowKey: []byte(row), Mutations: []*btpb.Mutation{{
			Mutation: &btpb.Mutation_SetCell_{SetCell: &btpb.Mutation_SetCell{
				FamilyName: family, ColumnQualifier: []byte(column), TimestampMicros: micros, Value: []byte(value),
			}},
		}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	one, two := "projects/p/instances/one/tables/t", "projects/p/instances/two/tables/t"
	for version := range int64(3) {
		set(one, "row", "z", "column", version*1000, fmt.Sprint("version ", version))
	}
	set(one, "row", "a", "\x00\xff\n", 244_000_000_000_000_000, "")
	set(one, "\x00\xff\n", "once", "", 1000, "\x00\xff")
	set(two, "row", "f", "c", 1000, strings.Repeat("long ", 10_000))
	set(two, "gone", "f", "c", 1000, "deleted below")
	_, err := data.MutateRow(ctx, &btpb.MutateRowRequest{TableName: two, RowKey: []byte("gone"), Mutations: []*btpb.Mutation{{
		Mutation: &btpb.Mutation_DeleteFromRow_{DeleteFromRow: &btpb.Mutation_DeleteFromRow{}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
}

func TestSnapshotKeepsEverything(t *testing.T) {
	t.Parallel()
	s := start(t)
	variety(t, s)
	snapshot, contents := save(t, s)
	want := Contents{Tables: []TableContents{
		{Name: "projects/p/instances/one/tables/t", Families: []string{"a", "once", "z"}, Rows: 2, Cells: 5, Newest: 244_000_000_000_000_000},
		{Name: "projects/p/instances/two/tables/empty"},
		{Name: "projects/p/instances/two/tables/t", Families: []string{"f"}, Rows: 1, Cells: 1, Newest: 1000},
	}}
	if diff := cmp.Diff(want, contents); diff != "" {
		t.Errorf("saved (-want +got):\n%s", diff)
	}
	restored, contents := restore(t, snapshot)
	if diff := cmp.Diff(want, contents); diff != "" {
		t.Errorf("restored (-want +got):\n%s", diff)
	}
	for _, name := range []string{want.Tables[0].Name, want.Tables[1].Name, want.Tables[2].Name} {
		var tables [2]*btapb.Table
		for i, addr := range []string{s.Addr(), restored.Addr()} {
			var err error
			tables[i], err = btapb.NewBigtableTableAdminClient(dial(t, addr)).GetTable(testContext(t), &btapb.GetTableRequest{Name: name})
			if err != nil {
				t.Fatal(err)
			}
		}
		if !proto.Equal(tables[0], tables[1]) {
			t.Errorf("the table was %v and is %v", tables[0], tables[1])
		}
	}
	if again, _ := save(t, restored); !bytes.Equal(snapshot, again) {
		t.Error("a snapshot of what was restored differs")
	}
}

// Whatever byte is changed and wherever a snapshot is cut off, it is refused before anything
// starts.
func TestSnapshotDamage(t *testing.T) {
	t.Parallel()
	s := start(t)
	createTable(t, s.ClientOptions(), "t", "f")
	fill(t, openClient(t, s.ClientOptions()).Open("t"), 3, []byte("v"))
	snapshot, _ := save(t, s)
	refused := func(what string, damaged []byte) {
		t.Helper()
		restored, _, err := Restore(testContext(t), bytes.NewReader(damaged))
		if err == nil {
			_ = restored.Close()
		}
		if !errors.Is(err, ErrBadSnapshot) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for i := range snapshot {
		damaged := bytes.Clone(snapshot)
		damaged[i] ^= 1
		refused(fmt.Sprintf("byte %d of %d changed", i, len(snapshot)), damaged)
		refused(fmt.Sprintf("cut off at %d of %d", i, len(snapshot)), snapshot[:i])
	}
	refused("a byte too many", append(bytes.Clone(snapshot), 0))

	later := bytes.Replace(snapshot, []byte(" v1\n"), []byte(" v2\n"), 1)
	if _, _, err := Restore(testContext(t), bytes.NewReader(later)); err == nil || !strings.Contains(err.Error(), "another version of this program") {
		t.Errorf("a later format: %v", err)
	}
}

// A snapshot with the right checksum whose records make no sense comes from a program with a
// mistake: it is refused all the same.
func TestSnapshotNonsense(t *testing.T) {
	t.Parallel()
	table := &btapb.Table{Name: fullName("t"), ColumnFamilies: map[string]*btapb.ColumnFamily{"f": {}}}
	row := &btpb.MutateRowsRequest_Entry{RowKey: []byte("r"), Mutations: []*btpb.Mutation{{
		Mutation: &btpb.Mutation_SetCell_{SetCell: &btpb.Mutation_SetCell{FamilyName: "unknown"}},
	}}}
	for name, write := range map[string]func(*snapshotWriter) error{
		"a row without a table": func(s *snapshotWriter) error { return s.record(recordRow, row) },
		"an unknown kind":       func(s *snapshotWriter) error { return s.record('?', nil) },
		"an unknown family": func(s *snapshotWriter) error {
			return errors.Join(s.record(recordTable, table), s.record(recordRow, row))
		},
		"a table without a name": func(s *snapshotWriter) error { return s.record(recordTable, &btapb.Table{}) },
		"half a record": func(s *snapshotWriter) error {
			_, err := s.buffered.Write([]byte{recordTable, 100, 1})
			return err
		},
		"two ends": func(s *snapshotWriter) error { return s.record(recordEnd, nil) },
	} {
		var out bytes.Buffer
		s, err := newSnapshotWriter(&out)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(write(s), s.end()); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Restore(testContext(t), bytes.NewReader(out.Bytes())); !errors.Is(err, ErrBadSnapshot) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Writers that write a number to one table and, when that is answered, to another: no snapshot has
// it in the second one only.
func TestSnapshotIsOneInstant(t *testing.T) {
	t.Parallel()
	s := start(t)
	opts := s.ClientOptions()
	createTable(t, opts, "first", "f")
	createTable(t, opts, "second", "f")
	createTable(t, opts, "middle", "f") // what is read between the two, so that there is time for something to go wrong
	client := openClient(t, opts)
	fill(t, client.Open("middle"), 5000, []byte("v"))
	ctx, stop := context.WithCancel(testContext(t))
	var writers errgroup.Group
	var written atomic.Uint64
	for i := range 4 {
		writers.Go(func() error {
			for n := uint64(1); ctx.Err() == nil; n++ {
				for _, table := range []string{"first", "second"} {
					m := bigtable.NewMutation()
					m.Set("f", "c", 1000, binary.BigEndian.AppendUint64(nil, n))
					if err := client.Open(table).Apply(testContext(t), rowKey(i), m); err != nil {
						return err
					}
				}
				written.Add(1)
			}
			return nil
		})
	}
	var snapshots [][]byte
	for i := range uint64(4) {
		eventually(t, "more is written", func() bool { return written.Load() >= 20*i })
		snapshot, _ := save(t, s)
		snapshots = append(snapshots, snapshot)
	}
	stop()
	if err := writers.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, snapshot := range snapshots {
		restored, _ := restore(t, snapshot)
		number := func(table string, i int) uint64 {
			row, err := openClient(t, restored.ClientOptions()).Open(table).ReadRow(testContext(t), rowKey(i))
			if err != nil {
				t.Fatal(err)
			}
			if len(row["f"]) == 0 {
				return 0
			}
			return binary.BigEndian.Uint64(row["f"][0].Value)
		}
		for i := range 4 {
			if first, second := number("first", i), number("second", i); second > first || first > second+1 {
				t.Errorf("writer %d: %d in the first table, %d in the second", i, first, second)
			}
		}
	}
}

func TestFrozenStoreTakesNoWrites(t *testing.T) {
	t.Parallel()
	s := start(t)
	createTable(t, s.ClientOptions(), "t", "f")
	data := btpb.NewBigtableClient(dial(t, s.Addr()))
	admin := btapb.NewBigtableTableAdminClient(dial(t, s.Addr()))
	set := func(ctx context.Context, column string) error {
		_, err := data.MutateRow(ctx, &btpb.MutateRowRequest{TableName: fullName("t"), RowKey: []byte("r"), Mutations: []*btpb.Mutation{{
			Mutation: &btpb.Mutation_SetCell_{SetCell: &btpb.Mutation_SetCell{FamilyName: "f", ColumnQualifier: []byte(column)}},
		}}})
		return err
	}
	frozen := s.Freeze()
	abandoned, cancel := context.WithCancel(testContext(t))
	left, waited, created := make(chan error, 1), make(chan error, 1), make(chan error, 1)
	go func() { left <- set(abandoned, "abandoned") }()
	go func() { waited <- set(testContext(t), "waited") }()
	go func() {
		_, err := admin.CreateTable(testContext(t), &btapb.CreateTableRequest{Parent: "projects/p/instances/i", TableId: "other"})
		created <- err
	}()
	cancel()
	if err := <-left; status.Code(err) != codes.Canceled {
		t.Errorf("the abandoned request: %v", err)
	}
	// Reads go on, and find nothing changed, nor does a snapshot.
	tbl := openClient(t, s.ClientOptions()).Open("t")
	for range 20 {
		if row, err := tbl.ReadRow(testContext(t), "r"); err != nil || len(row) != 0 {
			t.Fatalf("read %v, %v while nothing may change", row, err)
		}
	}
	contents, err := frozen.Save(testContext(t), io.Discard)
	if err != nil || len(contents.Tables) != 1 || contents.Tables[0].Rows != 0 {
		t.Errorf("saved %+v, %v", contents, err)
	}
	frozen.Thaw()
	frozen.Thaw()
	for _, done := range []chan error{waited, created} {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	row, err := tbl.ReadRow(testContext(t), "r")
	if err != nil || len(row["f"]) != 1 || row["f"][0].Column != "f:waited" {
		t.Errorf("read %v, %v, want what has waited, without what was abandoned", row, err)
	}
}

// A server that is closed while it is frozen ends, and what waits is not applied.
func TestCloseWhileFrozen(t *testing.T) {
	t.Parallel()
	s := start(t)
	createTable(t, s.ClientOptions(), "t", "f")
	s.Freeze()
	ended := make(chan error, 1)
	go func() {
		_, err := btpb.NewBigtableClient(dial(t, s.Addr())).MutateRow(testContext(t), &btpb.MutateRowRequest{
			TableName: fullName("t"), RowKey: []byte("r"),
			Mutations: []*btpb.Mutation{{Mutation: &btpb.Mutation_DeleteFromRow_{DeleteFromRow: &btpb.Mutation_DeleteFromRow{}}}},
		})
		ended <- err
	}()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err == nil {
		t.Error("a mutation was answered")
	}
}

// Save stops when it cannot write on, long before it has read the table.
func TestSaveStreams(t *testing.T) {
	t.Parallel()
	var pages atomic.Int64
	s := start(t, func(st *settings) {
		st.pages = pageLimits{rows: 1, bytes: 1}
		st.holding = func(*btpb.ReadRowsRequest) { pages.Add(1) }
	})
	createTable(t, s.ClientOptions(), "t", "f")
	const rows = 200
	noise := make([]byte, 256<<10)
	for i := range noise { // what does not compress, so that it gets to the writer soon
		noise[i] = byte((i * 2654435761) >> 13)
	}
	fill(t, openClient(t, s.ClientOptions()).Open("t"), rows, noise)
	full := errors.New("the disk is full")
	f := s.Freeze()
	defer f.Thaw()
	if _, err := f.Save(testContext(t), &limitedWriter{left: 1 << 10, err: full}); !errors.Is(err, full) {
		t.Errorf("Save: %v", err)
	}
	if n := pages.Load(); n >= rows {
		t.Errorf("%d of %d rows were read", n, rows)
	}
	canceled, cancel := context.WithCancel(testContext(t))
	cancel()
	if _, err := f.Save(canceled, io.Discard); status.Code(err) != codes.Canceled && !errors.Is(err, context.Canceled) {
		t.Errorf("Save without time: %v", err)
	}
}

// limitedWriter takes some bytes and then fails.
type limitedWriter struct {
	left int
	err  error
}

func (w *limitedWriter) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, w.err
	}
	return len(p), nil
}

// Nobody from outside is served before all is restored: whoever comes waits, and then finds the
// tables.
func TestConnectionsWaitForRestore(t *testing.T) {
	t.Parallel()
	s, err := prepare(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	found := make(chan error, 1)
	go func() {
		_, err := btapb.NewBigtableTableAdminClient(dial(t, s.Addr())).GetTable(testContext(t), &btapb.GetTableRequest{Name: fullName("t")})
		found <- err
	}()
	conn, err := s.dialInside()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	for i := range 50 { // long enough to find nothing, if that was possible
		_, err = btapb.NewBigtableTableAdminClient(conn).CreateTable(testContext(t),
			&btapb.CreateTableRequest{Parent: "projects/p/instances/i", TableId: fmt.Sprint("other", i)})
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := btapb.NewBigtableTableAdminClient(conn).CreateTable(testContext(t),
		&btapb.CreateTableRequest{Parent: "projects/p/instances/i", TableId: "t"}); err != nil {
		t.Fatal(err)
	}
	s.listener.open()
	if err := <-found; err != nil {
		t.Error(err)
	}
}

func TestOnChange(t *testing.T) {
	t.Parallel()
	changes := make(chan string, 100)
	s := start(t, OnChange(func(table, row string) { changes <- table + " " + row }))
	createTable(t, s.ClientOptions(), "t", "f")
	tbl := openClient(t, s.ClientOptions()).Open("t")
	fill(t, tbl, 2, []byte("v"))
	if _, err := tbl.ReadRow(testContext(t), rowKey(0)); err != nil {
		t.Fatal(err)
	}
	m := bigtable.NewMutation()
	m.DeleteRow()
	if err := tbl.Apply(testContext(t), rowKey(1), bigtable.NewCondMutation(bigtable.PassAllFilter(), m, nil)); err != nil {
		t.Fatal(err)
	}
	close(changes)
	var got []string
	for c := range changes {
		got = append(got, c)
	}
	name := fullName("t")
	if diff := cmp.Diff([]string{name + " ", name + " ", name + " " + rowKey(0), name + " " + rowKey(1)}, got); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}
