package backup

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/encoding/protodelim"

	"github.com/gopercolator/percolator/percolator/backup/backuppb"
	"github.com/gopercolator/percolator/percolator/model"
)

// rowTag begins each row: field 1 of a Chunk, of a type with a length.
const rowTag = 1<<3 | 2

// maxRowBytes is more than a row can have: Bigtable reads none beyond 256 MiB.
const maxRowBytes = 512 << 20

// chunkWriter compresses rows in memory. It is used by one goroutine.
type chunkWriter struct {
	table       string
	out         bytes.Buffer
	z           *zstd.Encoder // nil until there is a row
	counts      Counts
	first, last string
}

// begin begins the chunks of a table.
func (c *chunkWriter) begin(table string) {
	c.table = table
	c.reset()
}

// reset forgets what was added.
func (c *chunkWriter) reset() {
	c.out.Reset()
	if c.z != nil {
		c.z.Reset(&c.out)
	}
	c.counts = Counts{}
}

func (c *chunkWriter) add(row model.ExportedRow) error {
	if c.z == nil {
		var err error
		if c.z, err = zstd.NewWriter(&c.out, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20)); err != nil {
			return err
		}
	}
	if c.counts.Rows == 0 {
		c.first = row.Row
	}
	c.last = row.Row
	c.counts.countRow(row)
	if _, err := c.z.Write([]byte{rowTag}); err != nil {
		return err
	}
	n, err := protodelim.MarshalTo(c.z, encodeRow(row))
	c.counts.RawBytes += int64(1 + n)
	return err
}

func (c *Counts) countRow(row model.ExportedRow) {
	c.Rows++
	for _, e := range row.Cells {
		switch e.Kind {
		case model.ExportedPut:
			c.Values++
		case model.ExportedDelete:
			c.Deletes++
		case model.ExportedWeak:
			c.Weak++
		}
		if e.Notified {
			c.Notified++
		}
	}
}

// finish ends the chunk and returns it without its name.
func (c *chunkWriter) finish() (Chunk, []byte, error) {
	if err := c.z.Close(); err != nil {
		return Chunk{}, nil, err
	}
	data := bytes.Clone(c.out.Bytes())
	sum := sha256.Sum256(data)
	c.counts.Bytes = int64(len(data))
	out := Chunk{Table: c.table, SHA256: hex.EncodeToString(sum[:]), First: []byte(c.first), Last: []byte(c.last), Counts: c.counts}
	c.reset()
	return out, data, nil
}

// readChunk reads an object and compares it with its checksum.
func readChunk(ctx context.Context, s Store, c *Chunk) ([]byte, error) {
	if !strings.HasPrefix(c.Name, "chunks/") || path.Clean(c.Name) != c.Name {
		return nil, fmt.Errorf("backup: %s: %w: %q is not the name of a chunk", manifestName, ErrDamaged, c.Name)
	}
	b, err := get(ctx, s, c.Name, c.Bytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("backup: %s: %w: the object is missing", c.Name, ErrDamaged)
	}
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(b)
	switch {
	case int64(len(b)) != c.Bytes:
		return nil, fmt.Errorf("backup: %s: %w: it has %d bytes, not %d", c.Name, ErrDamaged, len(b), c.Bytes)
	case hex.EncodeToString(sum[:]) != c.SHA256:
		return nil, fmt.Errorf("backup: %s: %w: its SHA-256 is another", c.Name, ErrDamaged)
	}
	return b, nil
}

// eachRow decodes a chunk, and checks that its rows are those that were counted, in order. Memory:
// one row.
func (c *Chunk) eachRow(data []byte, f func(model.ExportedRow) error) error {
	z, err := zstd.NewReader(bytes.NewReader(data), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(8<<20))
	if err != nil {
		return err
	}
	defer z.Close()
	damaged := func(format string, args ...any) error {
		return fmt.Errorf("backup: %s: %w: %w", c.Name, ErrDamaged, fmt.Errorf(format, args...))
	}
	r := bufio.NewReader(io.LimitReader(z, c.RawBytes+1))
	found, last := Counts{RawBytes: c.RawBytes, Bytes: c.Bytes}, ""
	for {
		tag, err := r.ReadByte()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || tag != rowTag {
			return damaged("no row where one should begin (%v)", err)
		}
		pb := new(backuppb.Row)
		if err := (protodelim.UnmarshalOptions{MaxSize: min(max(c.RawBytes, 1), maxRowBytes)}).UnmarshalFrom(r, pb); err != nil {
			return damaged("a row that cannot be decoded: %w", err)
		}
		row := decodeRow(pb)
		if (found.Rows == 0 && row.Row != string(c.First)) || (found.Rows > 0 && row.Row <= last) {
			return damaged("rows are out of order")
		}
		last = row.Row
		found.countRow(row)
		if err := f(row); err != nil {
			return err
		}
	}
	if found != c.Counts || last != string(c.Last) {
		return damaged("it does not hold the rows that were counted")
	}
	return nil
}

func encodeRow(row model.ExportedRow) *backuppb.Row {
	pb := &backuppb.Row{Key: []byte(row.Row), Cells: make([]*backuppb.Cell, len(row.Cells))}
	for i, e := range row.Cells {
		c := &backuppb.Cell{Column: []byte(e.Column), Kind: backuppb.Kind(e.Kind), Value: e.Value, Notified: e.Notified}
		c.Acknowledged = convert[[]byte](e.Acknowledged)
		for _, s := range e.Parked {
			c.Parked = append(c.Parked, &backuppb.Parked{Observer: []byte(s.Observer), Attempts: int64(s.Attempts), Reason: s.Reason,
				SinceUnixNanos: s.Since.UnixNano(), Observers: convert[[]byte](s.Observers)})
		}
		pb.Cells[i] = c
	}
	return pb
}

func decodeRow(pb *backuppb.Row) model.ExportedRow {
	row := model.ExportedRow{Row: string(pb.Key), Cells: make([]model.ExportedCell, len(pb.Cells))}
	for i, c := range pb.Cells {
		e := model.ExportedCell{Column: string(c.Column), Kind: model.ExportKind(c.Kind & 0xff), Value: c.Value, Notified: c.Notified}
		e.Acknowledged = convert[string](c.Acknowledged)
		for _, p := range c.Parked {
			e.Parked = append(e.Parked, model.ObserverState{Observer: string(p.Observer), Attempts: int(p.Attempts), Reason: p.Reason,
				Since: time.Unix(0, p.SinceUnixNanos).UTC(), Observers: convert[string](p.Observers)})
		}
		row.Cells[i] = e
	}
	return row
}

func convert[To, From string | []byte](names []From) (out []To) {
	for _, n := range names {
		out = append(out, To(n))
	}
	return out
}
