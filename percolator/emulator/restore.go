package emulator

import (
	"bufio"
	"bytes"
	"compress/flate"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	btapb "cloud.google.com/go/bigtable/admin/apiv2/adminpb"
	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"
)

// Limits of one request that restores rows.
const (
	restoreRows  = 1000
	restoreBytes = 4 << 20
)

// Restore is Start with the tables of a snapshot that Save has written, read from where r stands to
// its end. It serves when all of it is there. It reads the snapshot twice, and checks its checksum
// before it uses anything. Errors: ErrBadSnapshot; those of r, of listening and of ctx.
func Restore(ctx context.Context, r io.ReadSeeker, opts ...Option) (*Server, Contents, error) {
	body, err := checkSnapshot(ctx, r)
	if err != nil {
		return nil, Contents{}, fmt.Errorf("emulator: %w", err)
	}
	s, err := prepare(opts)
	if err != nil {
		return nil, Contents{}, err
	}
	contents, err := s.restore(ctx, body)
	if err != nil {
		return nil, Contents{}, errors.Join(fmt.Errorf("emulator: restoring a snapshot: %w", err), s.Close())
	}
	s.listener.open()
	return s, contents, nil
}

func badSnapshot(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrBadSnapshot, fmt.Sprintf(format, args...))
}

// checkSnapshot compares what r has with its checksum and returns a reader of its DEFLATE stream.
func checkSnapshot(ctx context.Context, r io.ReadSeeker) (io.Reader, error) {
	start, err := r.Seek(0, io.SeekCurrent)
	if err != nil {
		return nil, err
	}
	end, err := r.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	if _, err := r.Seek(start, io.SeekStart); err != nil {
		return nil, err
	}
	digest, format := sha256.New(), make([]byte, len(snapshotFormat))
	if _, err := io.ReadFull(r, format); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, badSnapshot("it is shorter than its first line")
		}
		return nil, err
	}
	if string(format) != snapshotFormat {
		if strings.HasPrefix(string(format), snapshotPrefix) {
			return nil, badSnapshot("it has another format, %q instead of %q: another version of this program wrote it",
				bytes.TrimSpace(format), strings.TrimSpace(snapshotFormat))
		}
		return nil, badSnapshot("it does not begin with %q", strings.TrimSpace(snapshotFormat))
	}
	body := end - start - int64(len(snapshotFormat)) - sha256.Size
	if body < 0 {
		return nil, badSnapshot("it was cut off")
	}
	digest.Write(format)
	if _, err := io.Copy(digest, io.LimitReader(contextReader{ctx, r}, body)); err != nil {
		return nil, err
	}
	sum := make([]byte, sha256.Size)
	if _, err := io.ReadFull(r, sum); err != nil {
		return nil, err
	}
	if !bytes.Equal(sum, digest.Sum(nil)) {
		return nil, badSnapshot("its checksum is wrong: it was cut off or changed")
	}
	if _, err := r.Seek(start+int64(len(snapshotFormat)), io.SeekStart); err != nil {
		return nil, err
	}
	return io.LimitReader(r, body), nil
}

// contextReader reads until its context ends.
type contextReader struct {
	ctx context.Context
	io.Reader
}

func (r contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

// restore puts the records of a DEFLATE stream, whose checksum was right, into an empty emulator.
func (s *Server) restore(ctx context.Context, body io.Reader) (Contents, error) {
	conn, err := s.dialInside()
	if err != nil {
		return Contents{}, err
	}
	defer func() { _ = conn.Close() }()
	inflate := flate.NewReader(body)
	defer func() { _ = inflate.Close() }()
	w := &restorer{conn: conn}
	if err := w.records(ctx, bufio.NewReaderSize(inflate, 64<<10)); err != nil {
		return Contents{}, err
	}
	return w.contents, nil
}

// restorer makes tables and rows of records.
type restorer struct {
	conn     *grpc.ClientConn
	contents Contents
	rows     []*btpb.MutateRowsRequest_Entry // of the last table, not yet sent
	bytes    int
}

// records reads all records, to the end.
func (w *restorer) records(ctx context.Context, in *bufio.Reader) error {
	for {
		kind, err := in.ReadByte()
		if err != nil {
			return badSnapshot("reading a record: %v", err)
		}
		switch {
		case kind == recordTable:
			err = w.table(ctx, in)
		case kind == recordRow && len(w.contents.Tables) > 0:
			err = w.row(ctx, in)
		case kind == recordEnd:
			if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
				return badSnapshot("something follows its end")
			}
			return w.flush(ctx)
		default:
			err = badSnapshot("a record of the kind %q is not expected", kind)
		}
		if err != nil {
			return err
		}
	}
}

func read(in *bufio.Reader, m proto.Message) error {
	if err := (protodelim.UnmarshalOptions{MaxSize: maxMessageSize}).UnmarshalFrom(in, m); err != nil {
		return badSnapshot("reading a %s: %v", m.ProtoReflect().Descriptor().Name(), err)
	}
	return nil
}

// table creates a table with its families.
func (w *restorer) table(ctx context.Context, in *bufio.Reader) error {
	if err := w.flush(ctx); err != nil {
		return err
	}
	info := new(btapb.Table)
	if err := read(in, info); err != nil {
		return err
	}
	parent, id, ok := strings.Cut(info.Name, "/tables/")
	if !ok {
		return badSnapshot("a table is called %q", info.Name)
	}
	w.contents.Tables = append(w.contents.Tables, contentsOf(info))
	admin := btapb.NewBigtableTableAdminClient(w.conn)
	if _, err := admin.CreateTable(ctx, &btapb.CreateTableRequest{Parent: parent, TableId: id, Table: info}); err != nil {
		return err
	}
	return collectGarbage(ctx, admin, info)
}

// collectGarbage sets the rules of a table's families once more: the emulator begins to follow any
// only when one is set on a table that exists. Without one it is left alone, as it then logs every
// family of every row that has none.
func collectGarbage(ctx context.Context, admin btapb.BigtableTableAdminClient, t *btapb.Table) error {
	set := &btapb.ModifyColumnFamiliesRequest{Name: t.Name}
	for id, family := range t.ColumnFamilies {
		if family.GetGcRule().GetRule() != nil {
			set.Modifications = append(set.Modifications, &btapb.ModifyColumnFamiliesRequest_Modification{
				Id: id, Mod: &btapb.ModifyColumnFamiliesRequest_Modification_Update{Update: family},
			})
		}
	}
	if len(set.Modifications) == 0 {
		return nil
	}
	_, err := admin.ModifyColumnFamilies(ctx, set)
	return err
}

func (w *restorer) row(ctx context.Context, in *bufio.Reader) error {
	row := new(btpb.MutateRowsRequest_Entry)
	if err := read(in, row); err != nil {
		return err
	}
	w.contents.Tables[len(w.contents.Tables)-1].add(row)
	w.rows = append(w.rows, row)
	w.bytes += proto.Size(row)
	if len(w.rows) < restoreRows && w.bytes < restoreBytes {
		return nil
	}
	return w.flush(ctx)
}

// flush sends the rows that wait.
func (w *restorer) flush(ctx context.Context) error {
	if len(w.rows) == 0 {
		return nil
	}
	name := w.contents.Tables[len(w.contents.Tables)-1].Name
	answers, err := btpb.NewBigtableClient(w.conn).MutateRows(ctx, &btpb.MutateRowsRequest{TableName: name, Entries: w.rows})
	if err != nil {
		return err
	}
	w.rows, w.bytes = slices.Delete(w.rows, 0, len(w.rows)), 0
	for {
		m, err := answers.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, e := range m.Entries {
			if e.GetStatus().GetCode() != int32(codes.OK) {
				return badSnapshot("a row of %s cannot be put back: %v", name, status.ErrorProto(e.GetStatus()))
			}
		}
	}
}
