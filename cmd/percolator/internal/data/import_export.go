package data

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"iter"
	"os"
	"strings"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/formats"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/backup"
	"github.com/gopercolator/percolator/percolator/export"
	"github.com/gopercolator/percolator/percolator/loader"
)

// exported is the rows of an export, file by file, in the order of its manifest.
type exported struct {
	place    backup.Store
	manifest *export.Manifest
	key      string // of the manifest
	table    *formats.Table
	keyCells int64 // values that a row of the export has and one of the table has not, or less than none
}

// isExport reports whether --from names a place rather than a file.
func (s *importSource) isExport() bool {
	if strings.Contains(s.from, "://") {
		return true
	}
	stat, err := os.Stat(s.from)
	return err == nil && stat.IsDir()
}

func (s *importSource) openExport(ctx context.Context, table *formats.Table) (rows loader.Source[loader.Row], name string, closeSource func(), err error) {
	place, closePlace, err := cli.OpenPlace(ctx, s.from)
	if err != nil {
		return nil, "", nil, err
	}
	e := &exported{place: place, table: table}
	if e.manifest, name, err = export.ReadManifest(ctx, place); err == nil {
		e.key, err = formats.ParseName(e.manifest.Key)
	}
	if err == nil && e.key != "" {
		err = e.countKeys()
	}
	if err == nil {
		err = e.look(ctx)
	}
	if err != nil {
		closePlace()
		return nil, "", nil, fmt.Errorf("--from %s: %w", s.from, err)
	}
	return e.rows, name, closePlace, nil
}

// countKeys tells whether the exported table and this one store the row key as a column, too.
func (e *exported) countKeys() error {
	schema, err := admin.DecodeSchema(e.manifest.Schema)
	if err != nil {
		return err
	}
	from, err := formats.TableOf(schema, e.manifest.Table)
	if err != nil {
		return err
	}
	if from.StoresKey(e.key) {
		e.keyCells++
	}
	if e.table.StoresKey(e.key) {
		e.keyCells--
	}
	return nil
}

// look opens all files, where that takes no download.
func (e *exported) look(ctx context.Context) error {
	if cli.IsRemote(e.place) {
		return nil
	}
	for _, p := range e.manifest.Parts {
		f, err := e.open(ctx, p)
		if err == nil {
			_, err = e.onDisk(f)
			f.close()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
	}
	return nil
}

// open opens a file. One of a bucket is in memory as a whole if it is Parquet, which is not read
// from its beginning to its end.
func (e *exported) open(ctx context.Context, p export.Part) (f *partFile, err error) {
	r, err := e.place.Get(ctx, p.Name)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: it is missing", backup.ErrDamaged)
	}
	if err != nil {
		return nil, err
	}
	f = &partFile{file: r, unread: io.LimitReader(r, p.Bytes+1), of: p, sum: sha256.New()}
	if file, local := r.(*os.File); local {
		if f.stat, err = file.Stat(); err == nil && f.stat.Size() != p.Bytes {
			err = f.wrongSize(f.stat.Size())
		}
	}
	if err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

// partFile is a file of an export that is open.
type partFile struct {
	file   io.ReadCloser
	stat   fs.FileInfo // of a directory's, before it is read
	unread io.Reader   // to a byte more than there should be
	of     export.Part
	sum    hash.Hash // of the rest
}

func (f *partFile) close() { _ = f.file.Close() } // only read from

func (f *partFile) wrongSize(size int64) error {
	return fmt.Errorf("%w: it has %d bytes or more, and the manifest says %d", backup.ErrDamaged, size, f.of.Bytes)
}

// whole reads what is left of the file, and tells whether all of it is what was exported.
func (f *partFile) whole(to io.Writer) error {
	if _, err := io.Copy(io.MultiWriter(f.sum, to), f.unread); err != nil {
		return err
	}
	f.unread = bytes.NewReader(nil)
	if got := hex.EncodeToString(f.sum.Sum(nil)); got != f.of.SHA256 {
		return fmt.Errorf("%w: its SHA-256 is %s, and the manifest says %s", backup.ErrDamaged, got, f.of.SHA256)
	}
	return nil
}

// rowsOf reads a file that is as it was exported. Only lines of a bucket come before all of their
// file has been read: whole has the last word.
func (e *exported) rowsOf(f *partFile) (iter.Seq2[formats.Row, error], error) {
	if file, local := f.file.(*os.File); local {
		if err := f.whole(io.Discard); err != nil {
			return nil, err
		}
		rows, err := e.onDisk(f)
		if err != nil {
			return nil, err
		}
		return unchanged(file, f.stat, rows), nil
	}
	if format := e.manifest.Format; format != export.Parquet {
		return lines(e.table, format, io.TeeReader(f.unread, f.sum), e.key)
	}
	var b bytes.Buffer
	if err := f.whole(&b); err != nil {
		return nil, err
	}
	return rowsIn(e.table, e.manifest.Format, bytes.NewReader(b.Bytes()), f.of.Bytes, e.key)
}

// onDisk is the rows of a file of a directory, in whatever state it is.
func (e *exported) onDisk(f *partFile) (iter.Seq2[formats.Row, error], error) {
	return rowsIn(e.table, e.manifest.Format, f.file.(*os.File), f.of.Bytes, e.key)
}

// exportedPlace is a position: behind so many rows of a file.
type exportedPlace struct {
	part int
	rows int64
}

func (p exportedPlace) token() []byte { return fmt.Appendf(nil, "%d %d", p.part, p.rows) }

func (p *exportedPlace) parse(token []byte) error {
	if token == nil {
		return nil
	}
	if _, err := fmt.Sscanf(string(token), "%d %d", &p.part, &p.rows); err != nil || p.part < 0 || p.rows < 0 {
		return fmt.Errorf("%w: the stored position of the import is not that in an export", percolator.ErrCorrupt)
	}
	return nil
}

// rows is a loader.Source. A file has to hold what the manifest says before the next one begins.
func (e *exported) rows(ctx context.Context, from loader.Position) iter.Seq2[loader.Item[loader.Row], error] {
	return func(yield func(loader.Item[loader.Row], error) bool) {
		var at exportedPlace
		if err := at.parse(from.Token); err != nil {
			yield(loader.Item[loader.Row]{}, err)
			return
		}
		for at.part < len(e.manifest.Parts) && e.part(ctx, at, yield) {
			at = exportedPlace{part: at.part + 1}
		}
	}
}

// part reads all of a file, and yields what lies behind a position.
func (e *exported) part(ctx context.Context, from exportedPlace, yield func(loader.Item[loader.Row], error) bool) (more bool) {
	p := e.manifest.Parts[from.part]
	failed := func(err error) bool {
		return yield(loader.Item[loader.Row]{}, fmt.Errorf("%s: %w", p.Name, err))
	}
	f, err := e.open(ctx, p)
	if err != nil {
		failed(err)
		return false
	}
	defer f.close()
	rows, err := e.rowsOf(f)
	if err != nil {
		if failed(err) { // whoever passes over it must not lose the rest
			failed(errors.New("nothing of it can be read, and nothing behind it"))
		}
		return false
	}
	var read, values, unreadable int64
	var first, last string
	for row, err := range rows {
		if err != nil {
			if unreadable++; !failed(err) {
				return false
			}
			continue
		}
		if read == 0 {
			first = row.Key
		}
		read, values, last = read+1, values+int64(len(row.Cells))+e.keyCells, row.Key
		if read <= from.rows {
			continue
		}
		if !yield(loader.Item[loader.Row]{Value: importRow(row), Token: exportedPlace{from.part, read}.token()}, nil) {
			return false
		}
	}
	if read+unreadable != p.Rows || unreadable == 0 && values != p.Values {
		failed(fmt.Errorf("%w: it has %d rows with %d values, and the manifest says %d with %d", backup.ErrDamaged, read+unreadable, values, p.Rows, p.Values))
		return false
	}
	if unreadable == 0 && (first != string(p.First) || last != string(p.Last)) {
		failed(fmt.Errorf("%w: its rows are %s to %s, and the manifest says %s to %s", backup.ErrDamaged, cli.Shown(first), cli.Shown(last), cli.Shown(string(p.First)), cli.Shown(string(p.Last))))
		return false
	}
	if err := f.whole(io.Discard); err != nil {
		failed(err)
		return false
	}
	return true
}
