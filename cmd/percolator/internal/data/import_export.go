package data

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"strings"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/formats"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/backup"
	"github.com/gopercolator/percolator/percolator/export"
	"github.com/gopercolator/percolator/percolator/loader"
)

// exported is the rows of an export, file by file, in the order of its manifest.
type exported struct {
	place    backup.Store
	manifest *export.Manifest
	table    *formats.Table
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
		err = e.look(ctx)
	}
	if err != nil {
		closePlace()
		return nil, "", nil, fmt.Errorf("--from %s: %w", s.from, err)
	}
	return e.rows, name, closePlace, nil
}

// look opens all files, where that takes no download.
func (e *exported) look(ctx context.Context) error {
	if cli.IsRemote(e.place) {
		return nil
	}
	for _, p := range e.manifest.Parts {
		_, closePart, err := e.open(ctx, p)
		if err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
		closePart()
	}
	return nil
}

// open opens a file. One of a bucket is in memory as a whole if it is Parquet, which is not read
// from its beginning to its end.
func (e *exported) open(ctx context.Context, p export.Part) (rows iter.Seq2[formats.Row, error], closePart func(), err error) {
	r, err := e.place.Get(ctx, p.Name)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: it is missing", backup.ErrDamaged)
	}
	if err != nil {
		return nil, nil, err
	}
	closePart = func() { _ = r.Close() } // only read from
	if rows, err = e.read(r, p); err != nil {
		closePart()
		return nil, nil, err
	}
	return rows, closePart, nil
}

func (e *exported) read(r io.Reader, p export.Part) (iter.Seq2[formats.Row, error], error) {
	file, local := r.(*os.File)
	if local {
		stat, err := file.Stat()
		if err == nil && stat.Size() != p.Bytes {
			err = wrongSize(stat.Size(), p)
		}
		if err != nil {
			return nil, err
		}
	}
	switch {
	case e.manifest.Format == export.JSONLines:
		return jsonLines(e.table, r), nil
	case local:
		return e.table.ReadParquet(file, p.Bytes, "")
	}
	b, err := io.ReadAll(io.LimitReader(r, p.Bytes+1))
	if err == nil && int64(len(b)) != p.Bytes {
		err = wrongSize(int64(len(b)), p)
	}
	if err != nil {
		return nil, err
	}
	return e.table.ReadParquet(bytes.NewReader(b), p.Bytes, "")
}

func wrongSize(size int64, p export.Part) error {
	return fmt.Errorf("%w: it has %d bytes or more, and the manifest says %d", backup.ErrDamaged, size, p.Bytes)
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
	rows, closePart, err := e.open(ctx, p)
	if err != nil {
		failed(err)
		return false
	}
	defer closePart()
	var read, values, unreadable int64
	for row, err := range rows {
		if err != nil {
			if unreadable++; !failed(err) {
				return false
			}
			continue
		}
		read, values = read+1, values+int64(len(row.Cells))
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
	return true
}
