package data

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/bigtable"
	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/catalog/values"
	"github.com/gopercolator/percolator/internal/formats"
	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/adopt"
	"github.com/gopercolator/percolator/percolator/export"
	"github.com/gopercolator/percolator/percolator/loader"
)

const (
	plainScheme     = "bigtable:"
	maxMappingBytes = 1 << 20
)

// importSource says where rows come from.
type importSource struct{ from, mapping, at, key string }

func (s *importSource) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&s.from, "from", "", "FILE.jsonl, FILE.parquet, FILE.csv, the directory of an export, bigtable:TABLE or bigtable:PROJECT/INSTANCE/TABLE")
	flags.StringVar(&s.mapping, "map", "", "file that says which cells of a plain Bigtable table become which columns")
}

func (s *importSource) check() error {
	plain := strings.HasPrefix(s.from, plainScheme)
	switch {
	case s.from == "":
		return cli.Usagef("--from is needed")
	case plain && s.mapping == "":
		return cli.Usagef("--from %s needs --map", s.from)
	case !plain && (s.mapping != "" || s.at != ""):
		return cli.Usagef("--map and --at are for --from bigtable:…")
	case s.key != "" && (plain || s.isExport()):
		return cli.Usagef("--key is for --from FILE.jsonl, FILE.parquet and FILE.csv")
	case !plain && !slices.Contains(export.Formats, s.format()) && !s.isExport():
		return cli.Usagef("--from %s is none of FILE.jsonl, FILE.parquet, FILE.csv, the directory of an export, gs://BUCKET/PATH, bigtable:TABLE", s.from)
	}
	return nil
}

// format is that of a file, by its name.
func (s *importSource) format() export.Format {
	return export.Format(strings.TrimPrefix(filepath.Ext(s.from), "."))
}

// open opens the source of rows for a table. name tells it from others: the same one has the same
// rows.
func (s *importSource) open(ctx context.Context, c *percolator.Client, table string, n cli.InstanceName) (rows loader.Source[loader.Row], name string, closeSource func(), err error) {
	if strings.HasPrefix(s.from, plainScheme) {
		return s.openPlain(ctx, c, table, n)
	}
	format, err := formats.TableOf(c.Schema(), table)
	if err != nil {
		return nil, "", nil, err
	}
	if s.isExport() {
		return s.openExport(ctx, format)
	}
	read, name, closeSource, err := s.openRows(format)
	if err != nil {
		return nil, "", nil, err
	}
	return replay(read), name, closeSource, nil
}

// openRows opens the file to import, whose rows can be read again and again.
func (s *importSource) openRows(t *formats.Table) (rows iter.Seq2[formats.Row, error], name string, closeFile func(), err error) {
	file, stat, err := s.openFile()
	if err != nil {
		return nil, "", nil, err
	}
	rows, err = rowsIn(t, s.format(), file, stat.Size(), s.key)
	if err != nil {
		_ = file.Close() // only read from
		return nil, "", nil, fmt.Errorf("--from %s: %w", filepath.Base(s.from), err)
	}
	name = fmt.Sprintf("%s (%d bytes of %s)", filepath.Base(s.from), stat.Size(), stat.ModTime().UTC().Format(time.RFC3339Nano))
	if s.key != "" {
		name += fmt.Sprintf(" by %q", s.key)
	}
	return unchanged(file, stat, rows), name, func() { _ = file.Close() }, nil
}

// unchanged yields an error behind the rows of a file that somebody has written to.
func unchanged(file *os.File, was os.FileInfo, rows iter.Seq2[formats.Row, error]) iter.Seq2[formats.Row, error] {
	return func(yield func(formats.Row, error) bool) {
		for row, err := range rows {
			if !yield(row, err) {
				return
			}
		}
		is, err := file.Stat()
		if err == nil && (is.Size() != was.Size() || !is.ModTime().Equal(was.ModTime())) {
			err = errors.New("the file was changed while it was read")
		}
		if err != nil {
			yield(formats.Row{}, err)
		}
	}
}

// openFile opens the file to import. An import that goes on reads it again, and opening a pipe
// would wait for a writer.
func (s *importSource) openFile() (*os.File, os.FileInfo, error) {
	stat, err := os.Stat(s.from)
	if err != nil {
		return nil, nil, cli.Usagef("--from %s: %w", s.from, cli.WithoutPath(err))
	}
	if !stat.Mode().IsRegular() {
		return nil, nil, cli.Usagef("--from %s is not a file", s.from)
	}
	file, err := os.Open(s.from)
	if err != nil {
		return nil, nil, cli.Usagef("--from %s: %w", s.from, cli.WithoutPath(err))
	}
	return file, stat, nil
}

// rowsIn reads a file from its beginning, each time.
func rowsIn(t *formats.Table, format export.Format, file io.ReaderAt, size int64, key string) (iter.Seq2[formats.Row, error], error) {
	if format == export.Parquet {
		return t.ReadParquet(file, size, key)
	}
	begin := func() (iter.Seq2[formats.Row, error], error) {
		return lines(t, format, io.NewSectionReader(file, 0, size), key)
	}
	if _, err := begin(); err != nil {
		return nil, err
	}
	return func(yield func(formats.Row, error) bool) {
		rows, err := begin()
		if err != nil {
			yield(formats.Row{}, err)
			return
		}
		rows(yield)
	}, nil
}

// lines reads a file of lines, once.
func lines(t *formats.Table, format export.Format, file io.Reader, key string) (iter.Seq2[formats.Row, error], error) {
	if format == export.CSV {
		return t.ReadCSV(file, key)
	}
	return t.ReadJSON(file, key), nil
}

// replay is the rows of a file that can be read again and again, each key once.
func replay(rows iter.Seq2[formats.Row, error]) loader.Source[loader.Row] {
	var repeated map[string]bool
	return loader.Replay(func(ctx context.Context) iter.Seq2[loader.Row, error] {
		return func(yield func(loader.Row, error) bool) {
			once(ctx, rows, &repeated)(func(row formats.Row, err error) bool { return yield(importRow(row), err) })
		}
	}, nil)
}

func importRow(row formats.Row) loader.Row {
	return loader.Row{Row: row.Key, Cells: ordered.Map(row.Cells, func(cell formats.Cell) loader.Cell { return loader.Cell(cell) })}
}

// plainTable is a plain Bigtable table with its mapping.
type plainTable struct {
	*bigtable.Table
	mapping *adopt.Mapping
	name    string
	close   func()
}

func (s *importSource) plain(ctx context.Context, n cli.InstanceName) (p plainTable, err error) {
	parts := strings.Split(strings.TrimPrefix(s.from, plainScheme), "/")
	project, instance, profile := n.Project, n.Instance, n.AppProfile
	switch {
	case len(parts) == 3 && parts[0] != "" && parts[1] != "" && parts[2] != "":
		project, instance, profile = parts[0], parts[1], "" // a profile belongs to an instance
	case len(parts) != 1 || parts[0] == "":
		return p, cli.Usagef("--from %s is neither bigtable:TABLE nor bigtable:PROJECT/INSTANCE/TABLE", s.from)
	}
	var text []byte
	err = cli.ReadInput(ctx, s.mapping, nil, maxMappingBytes, func(b []byte) (err error) {
		text = b
		p.mapping, err = adopt.ParseMapping(b)
		return err
	})
	if err != nil {
		return p, err
	}
	client, err := bigtable.NewClientWithConfig(ctx, project, instance, bigtable.ClientConfig{
		AppProfile: profile, MetricsProvider: bigtable.NoopMetricsProvider{}, DisableDirectAccess: true, DisableSession: true,
	}, cli.BigtableOptions(ctx)...)
	if err != nil {
		return p, fmt.Errorf("opening Bigtable instance %s/%s: %w", project, instance, err)
	}
	table := parts[len(parts)-1]
	p.Table, p.close = client.Open(table), func() { _ = client.Close() }
	p.name = fmt.Sprintf("%s%s/%s/%s by mapping %x", plainScheme, project, instance, table, sha256.Sum256(text))
	return p, nil
}

func (s *importSource) openPlain(ctx context.Context, c *percolator.Client, table string, n cli.InstanceName) (loader.Source[loader.Row], string, func(), error) {
	var at time.Time
	if s.at != "" {
		var err error
		if at, err = values.ParseTime(time.RFC3339Nano, s.at); err != nil {
			return nil, "", nil, cli.Usagef("--at %q is not a time as 2026-11-25T12:00:00Z", s.at)
		}
	}
	p, err := s.plain(ctx, n)
	if err != nil {
		return nil, "", nil, err
	}
	rows, err := p.mapping.Source(c, table, p.Table, at)
	if err != nil {
		p.close()
		return nil, "", nil, err
	}
	name := p.name
	if s.at != "" {
		name += " at " + at.UTC().Format(time.RFC3339Nano)
	}
	return rows, name, p.close, nil
}
