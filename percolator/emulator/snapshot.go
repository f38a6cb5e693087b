package emulator

import (
	"bufio"
	"cmp"
	"compress/flate"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	btapb "cloud.google.com/go/bigtable/admin/apiv2/adminpb"
	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"
)

// A snapshot is a line that names its format, a DEFLATE stream, and the SHA-256 of all that. The
// stream holds, for each table, a table record and one row record for each row, in the order of
// their names and keys, and an end record. A record is one byte for its kind and a protocol buffer
// after its length, as protodelim writes it: for a table as its administration describes it, for a
// row the mutations that make it. So equal stores have equal snapshots.
const (
	snapshotFormat = "percolator emulator snapshot v1\n"
	snapshotPrefix = "percolator emulator snapshot v"

	recordTable byte = 't'
	recordRow   byte = 'r'
	recordEnd   byte = 'e'
)

// ErrBadSnapshot: the data is no snapshot, is incomplete, or has changed since it was written.
var ErrBadSnapshot = errors.New("not an undamaged snapshot")

// Contents says what a snapshot holds: its tables in the order of their names.
type Contents struct{ Tables []TableContents }

// TableContents says what a snapshot holds of a table.
type TableContents struct {
	Name     string   // in full: projects/P/instances/I/tables/T
	Families []string // in alphabetical order
	Rows     int64
	Cells    int64 // versions, of all rows
	Newest   int64 // greatest timestamp of a cell, in µs as in Bigtable; 0: no cells
}

// Save writes a snapshot of all tables of all instances to w: families with their garbage
// collection rules, deletion protection and granularity, and every version of every cell. It needs
// memory for about the largest row. It leaves out instances and clusters themselves.
func (f *Frozen) Save(ctx context.Context, w io.Writer) (Contents, error) {
	conn, err := f.server.dialInside()
	if err != nil {
		return Contents{}, fmt.Errorf("emulator: %w", err)
	}
	defer func() { _ = conn.Close() }()
	s, err := newSnapshotWriter(w)
	if err != nil {
		return Contents{}, fmt.Errorf("emulator: writing a snapshot: %w", err)
	}
	var all Contents
	for _, name := range f.server.guard.tableNames() {
		t, err := s.table(ctx, conn, name)
		if err != nil {
			return Contents{}, fmt.Errorf("emulator: writing a snapshot of %s: %w", name, err)
		}
		all.Tables = append(all.Tables, t)
	}
	if err := s.end(); err != nil {
		return Contents{}, fmt.Errorf("emulator: writing a snapshot: %w", err)
	}
	return all, nil
}

// snapshotWriter writes records.
type snapshotWriter struct {
	out      io.Writer
	digest   interface{ Sum([]byte) []byte }
	deflate  *flate.Writer
	buffered *bufio.Writer
}

func newSnapshotWriter(w io.Writer) (*snapshotWriter, error) {
	digest := sha256.New()
	hashed := io.MultiWriter(w, digest)
	if _, err := io.WriteString(hashed, snapshotFormat); err != nil {
		return nil, err
	}
	deflate, err := flate.NewWriter(hashed, flate.BestSpeed) // writers wait for it
	if err != nil {
		return nil, err
	}
	return &snapshotWriter{out: w, digest: digest, deflate: deflate, buffered: bufio.NewWriterSize(deflate, 64<<10)}, nil
}

func (s *snapshotWriter) record(kind byte, m proto.Message) error {
	if err := s.buffered.WriteByte(kind); err != nil {
		return err
	}
	if m == nil {
		return nil
	}
	_, err := protodelim.MarshalOptions{MarshalOptions: proto.MarshalOptions{Deterministic: true}}.MarshalTo(s.buffered, m)
	return err
}

func (s *snapshotWriter) end() error {
	if err := s.record(recordEnd, nil); err != nil {
		return err
	}
	if err := s.buffered.Flush(); err != nil {
		return err
	}
	if err := s.deflate.Close(); err != nil {
		return err
	}
	_, err := s.out.Write(s.digest.Sum(nil))
	return err
}

// table writes one table.
func (s *snapshotWriter) table(ctx context.Context, conn *grpc.ClientConn, name string) (TableContents, error) {
	info, err := btapb.NewBigtableTableAdminClient(conn).GetTable(ctx, &btapb.GetTableRequest{Name: name})
	if err != nil {
		return TableContents{}, err
	}
	if err := s.record(recordTable, info); err != nil {
		return TableContents{}, err
	}
	ctx, cancel := context.WithCancel(ctx) // ends the stream if a record cannot be written
	defer cancel()
	rows, err := btpb.NewBigtableClient(conn).ReadRows(ctx, &btpb.ReadRowsRequest{TableName: name})
	if err != nil {
		return TableContents{}, err
	}
	contents := contentsOf(info)
	for {
		m, err := rows.Recv()
		if errors.Is(err, io.EOF) {
			return contents, nil
		}
		if err != nil {
			return TableContents{}, err
		}
		if len(m.Chunks) == 0 { // a row whose cells were all deleted
			continue
		}
		row := rowOf(m.Chunks)
		contents.add(row)
		if err := s.record(recordRow, row); err != nil {
			return TableContents{}, err
		}
	}
}

// rowOf returns the mutations that make a row. The emulator sends each row in one message, and each
// cell in one chunk, by name.
func rowOf(chunks []*btpb.ReadRowsResponse_CellChunk) *btpb.MutateRowsRequest_Entry {
	row := &btpb.MutateRowsRequest_Entry{RowKey: chunks[0].RowKey, Mutations: make([]*btpb.Mutation, len(chunks))}
	for i, c := range chunks {
		row.Mutations[i] = &btpb.Mutation{Mutation: &btpb.Mutation_SetCell_{SetCell: &btpb.Mutation_SetCell{
			FamilyName:      c.FamilyName.GetValue(),
			ColumnQualifier: c.Qualifier.GetValue(),
			TimestampMicros: c.TimestampMicros,
			Value:           c.Value,
		}}}
	}
	// Families come in the order in which they were created, which a restored table need not have.
	slices.SortStableFunc(row.Mutations, func(a, b *btpb.Mutation) int {
		return cmp.Compare(a.GetSetCell().GetFamilyName(), b.GetSetCell().GetFamilyName())
	})
	return row
}

func contentsOf(t *btapb.Table) TableContents {
	return TableContents{Name: t.Name, Families: slices.Sorted(maps.Keys(t.ColumnFamilies))}
}

func (t *TableContents) add(row *btpb.MutateRowsRequest_Entry) {
	t.Rows++
	t.Cells += int64(len(row.Mutations))
	for _, m := range row.Mutations {
		t.Newest = max(t.Newest, m.GetSetCell().GetTimestampMicros())
	}
}
