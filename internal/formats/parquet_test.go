package formats

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/gopercolator/percolator/internal/catalog/values"
	"github.com/gopercolator/percolator/percolator/model"
)

func readParquet(table *Table, b []byte) (list []Row, err error) {
	rows, err := table.ReadParquet(bytes.NewReader(b), int64(len(b)), "")
	if err != nil {
		return nil, err
	}
	for r, err := range rows {
		if err != nil {
			return list, err
		}
		list = append(list, r)
	}
	return list, nil
}

// parquetOf is a file of another program.
func parquetOf[T any](t testing.TB, rows ...T) []byte {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewGenericWriter[T](&b)
	if _, err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestParquetOfAnotherSchema(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	w := tableOf(model.ColumnSchema{Name: "int", Type: model.TypeString}, model.ColumnSchema{Name: "more", Type: model.TypeString}).NewParquetWriter(&b)
	if _, err := w.Write(Row{"r", []Cell{{"more", []byte("x")}, {"else", []byte("y")}}}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if rows, err := readParquet(testTable(), b.Bytes()); !errors.Is(err, model.ErrInvalidArgument) {
		t.Errorf("a column of another type: %v, %v", rows, err)
	}
	if rows, err := readParquet(testTable(), []byte("PAR1 no")); !errors.Is(err, model.ErrInvalidArgument) {
		t.Errorf("no Parquet file: %v, %v", rows, err)
	}
	want := Row{"r", []Cell{{"more", []byte("x")}, {"else", []byte("y")}}}
	other := tableOf(model.ColumnSchema{Name: "missing"}, model.ColumnSchema{Name: "int", Type: model.TypeString}, model.ColumnSchema{Name: "mo*", Type: model.TypeString})
	if rows, err := readParquet(other, b.Bytes()); err != nil || len(rows) != 1 || !sameRow(rows[0], want) {
		t.Errorf("%v, %v, want %v", rows, err, want)
	}
}

// Columns that the table does not declare are refused, never left out: the error names them, the
// table, and what to do.
func TestParquetOfUndeclaredColumns(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	columns := []model.ColumnSchema{{Name: "more", Type: model.TypeString}, {Name: "stars", Type: model.TypeInt64}}
	w := tableOf(columns...).NewParquetWriter(&b)
	if _, err := w.Write(Row{"r", []Cell{{"stars", values.EncodeInt64(5)}}}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		table *Table
		want  string
	}{
		{tableOf(), `the file has columns "more", "stars", and table "t" declares no columns: list every column of the table with its type under columns: of the table in the schema`},
		{tableOf(columns[1]), `the file has column "more", and table "t" does not declare it: list it with its type under columns:`},
		{tableOf(model.ColumnSchema{Name: "n:*"}), `the file has columns "more", "stars", and table "t" does not declare them: list each with its type`},
	} {
		if rows, err := readParquet(c.table, b.Bytes()); !errors.Is(err, model.ErrInvalidArgument) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q, %v, want %s", rows, err, c.want)
		}
	}
}

// What follows a row that cannot be read is read.
func TestParquetAfterAnUnreadableRow(t *testing.T) {
	t.Parallel()
	type line struct {
		others
		String []byte `parquet:"string"`
	}
	file := parquetOf(t, line{others{Row: "a"}, []byte("\xff")}, line{others{Row: "b"}, []byte("x")})
	rows, err := testTable().ReadParquet(bytes.NewReader(file), int64(len(file)), "")
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	var failed []error
	for row, err := range rows {
		if err != nil {
			failed = append(failed, err)
			continue
		}
		keys = append(keys, row.Key)
	}
	if len(failed) != 1 || !errors.Is(failed[0], model.ErrInvalidArgument) || !slices.Equal(keys, []string{"b"}) {
		t.Errorf("rows %q, errors %v", keys, failed)
	}
}

// others is what a file of another program holds beside what is looked at.
type others struct {
	Row     string            `parquet:"row"`
	Columns map[string][]byte `parquet:"columns,optional"`
}

// Files of other programs whose columns hold something else than the table's are refused. The error
// says which column, what it is, and what it has to be.
func TestParquetThatDoesNotFit(t *testing.T) {
	t.Parallel()
	rest := others{Row: "r", Columns: map[string][]byte{"a": []byte("x")}}
	type group struct{ Int int64 }
	for name, c := range map[string]struct {
		file []byte
		want []string
	}{
		"keys that are numbers": {parquetOf(t, struct {
			Row     int64             `parquet:"row"`
			Columns map[string][]byte `parquet:"columns,optional"`
		}{4242, rest.Columns}), []string{`"row"`, "INT(64,true)", "BYTE_ARRAY"}},
		"keys that are a list": {parquetOf(t, struct {
			Row     []string          `parquet:"row"`
			Columns map[string][]byte `parquet:"columns,optional"`
		}{[]string{"a", "b"}, rest.Columns}), []string{`"row"`, "repeated STRING", "BYTE_ARRAY"}},
		"no keys": {parquetOf(t, struct {
			Columns map[string][]byte `parquet:"columns,optional"`
		}{rest.Columns}), []string{`"row"`, "missing", "BYTE_ARRAY"}},
		"undeclared columns that are numbers": {parquetOf(t, struct {
			Row     string           `parquet:"row"`
			Columns map[string]int64 `parquet:"columns,optional"`
		}{"r", map[string]int64{"a": 4242}}), []string{`"columns.key_value.value"`, "INT(64,true)", "BYTE_ARRAY"}},
		"names that are numbers": {parquetOf(t, struct {
			Row     string           `parquet:"row"`
			Columns map[int64][]byte `parquet:"columns,optional"`
		}{"r", map[int64][]byte{1: nil}}), []string{`"columns.key_value.key"`, "INT(64,true)", "BYTE_ARRAY"}},
		"undeclared columns that are no map": {parquetOf(t, struct {
			Row     string `parquet:"row"`
			Columns string `parquet:"columns"`
		}{"r", "x"}), []string{`"columns"`, "STRING", "MAP"}},
		"a number above all of the table's": {parquetOf(t, struct {
			others
			Int uint64 `parquet:"int"`
		}{rest, 1 << 63}), []string{"row r: ", `"int"`, "2^63"}},
		"a list": {parquetOf(t, struct {
			others
			Int []int64 `parquet:"int"`
		}{rest, []int64{1, 2, 3}}), []string{`"int"`, "repeated INT(64,true)", "INT64"}},
		"a list in groups": {parquetOf(t, struct {
			others
			Int []int64 `parquet:"int,list"`
		}{rest, []int64{1, 2, 3}}), []string{`"int"`, "LIST", "INT64"}},
		"a group": {parquetOf(t, struct {
			others
			Int group `parquet:"int"`
		}{rest, group{1}}), []string{`"int"`, "a group", "INT64"}},
		"a decimal": {parquetOf(t, struct {
			others
			Int int64 `parquet:"int,decimal(2:18)"`
		}{rest, 1234}), []string{`"int"`, "DECIMAL(18,2)", "INT64"}},
		"a time as a number": {parquetOf(t, struct {
			others
			Int int64 `parquet:"int,timestamp(microsecond)"`
		}{rest, 1234}), []string{`"int"`, "TIMESTAMP(isAdjustedToUTC=true,unit=MICROS)", "INT64"}},
		"a time that nanoseconds do not reach": {parquetOf(t, struct {
			others
			Time int64 `parquet:"time,timestamp(millisecond)"`
		}{rest, 1 << 60}), []string{"row r: ", `"time"`, "between the years 1678 and 2262"}},
		"a time of a day": {parquetOf(t, struct {
			others
			Time int64 `parquet:"time,time(microsecond)"`
		}{rest, 1234}), []string{`"time"`, "TIME(isAdjustedToUTC=true,unit=MICROS)", "TIMESTAMP"}},
		"a number as a time": {parquetOf(t, struct {
			others
			Time int64 `parquet:"time"`
		}{rest, 1234}), []string{`"time"`, "INT(64,true)", "TIMESTAMP"}},
		"a decimal as bytes": {parquetOf(t, struct {
			others
			Bytes []byte `parquet:"bytes,decimal(2:18)"`
		}{rest, make([]byte, 8)}), []string{`"bytes"`, "DECIMAL(18,2)", "BYTE_ARRAY"}},
		"half the precision": {parquetOf(t, struct {
			others
			Float float32 `parquet:"float"`
		}{rest, 1}), []string{`"float"`, "FLOAT", "DOUBLE"}},
		"a number as a boolean": {parquetOf(t, struct {
			others
			Bool int32 `parquet:"bool"`
		}{rest, 1}), []string{`"bool"`, "INT(32,true)", "BOOLEAN"}},
		"an UUID": {parquetOf(t, struct {
			others
			String [16]byte `parquet:"string,uuid"`
		}{rest, [16]byte{1}}), []string{`"string"`, "UUID", "STRING"}},
	} {
		rows, err := readParquet(testTable(), c.file)
		if !errors.Is(err, model.ErrInvalidArgument) {
			t.Errorf("%s: read as %q, %v", name, rows, err)
			continue
		}
		for _, text := range c.want {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%s: the error lacks %s: %v", name, text, err)
			}
		}
	}
}

// Files of other programs may have other types, as long as the values are the same.
func TestParquetOfOtherPrograms(t *testing.T) {
	t.Parallel()
	type line struct {
		Row     *[]byte            `parquet:"row,optional"`
		Int     int64              `parquet:"int"` // INT(64,true)
		String  string             `parquet:"string,enum,dict"`
		Doc     string             `parquet:"doc"`
		Bytes   [3]byte            `parquet:"bytes"`
		Bool    *bool              `parquet:"bool,optional"`
		Columns map[string]*string `parquet:"columns" parquet-value:",optional"`
	}
	key, x := []byte("r"), "x"
	got, err := readParquet(testTable(), parquetOf(t, line{Row: &key, Int: -7, String: "s", Doc: "{}", Bytes: [3]byte{1, 2, 3}, Columns: map[string]*string{"a": &x}}))
	want := Row{"r", []Cell{{"int", values.EncodeInt64(-7)}, {"string", []byte("s")}, {"doc", []byte("{}")}, {"bytes", []byte{1, 2, 3}}, {"a", []byte("x")}}}
	if err != nil || len(got) != 1 || !sameRow(got[0], want) {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
	if got, err = readParquet(testTable(), parquetOf(t, line{Row: &key, Doc: "{}", Columns: map[string]*string{"a": nil}})); !errors.Is(err, model.ErrInvalidArgument) {
		t.Errorf("a column without a value: %q, %v", got, err)
	}
}

// A damaged file is an error, whatever is damaged.
func FuzzReadParquet(f *testing.F) {
	f.Add(parquetOf(f, others{"r", map[string][]byte{"a": []byte("x")}}))
	var b bytes.Buffer
	w := testTable().NewParquetWriter(&b)
	for _, key := range []string{"a", "b"} {
		_, err := w.Write(Row{key, []Cell{{"int", values.EncodeInt64(7)}, {"string", []byte("s")}, {"bool", []byte{1}}, {"other", []byte("o")}}})
		if err != nil {
			f.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, file []byte) {
		_, _ = readParquet(testTable(), file) // does not panic
	})
}

// A file of which one byte has changed does not panic.
func TestParquetWithDamage(t *testing.T) {
	t.Parallel()
	table, file := testTable(), parquetOf(t, others{"r", map[string][]byte{"a": []byte("x")}})
	for i := range file {
		for _, to := range []byte{0, 1, 0x7f, 0xff, file[i] + 1, file[i] ^ 0x80} {
			damaged := slices.Clone(file)
			damaged[i] = to
			_, _ = readParquet(table, damaged) // does not panic
		}
	}
}

// A footer that claims to be larger than its file is an error before memory is allocated for it.
func TestParquetWithHugeFooter(t *testing.T) {
	file := parquetOf(t, others{"r", map[string][]byte{"a": []byte("x")}})
	copy(file[len(file)-8:], []byte{0, 0, 0, 0x10}) // 256 MiB
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := readParquet(testTable(), file); !errors.Is(err, model.ErrInvalidArgument) {
		t.Errorf("%v", err)
	}
	if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > 1<<20 {
		t.Errorf("%d bytes allocated for a file of %d", after.TotalAlloc-before.TotalAlloc, len(file))
	}
}

// Nor does one of which several bytes have changed.
func TestManyDamagesOfParquet(t *testing.T) {
	t.Parallel()
	table := testTable()
	var b bytes.Buffer
	w := table.NewParquetWriter(&b)
	for i := range 50 {
		if _, err := w.Write(Row{fmt.Sprint("row ", i), []Cell{{"int", values.EncodeInt64(int64(i))}, {"string", []byte("text")}, {"bool", []byte{1}}, {"other", []byte("x")}}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	dice := rand.New(rand.NewPCG(1, 2))
	panics := map[string]int{}
	for range 3000 {
		data := bytes.Clone(b.Bytes())
		for range 1 + dice.IntN(3) {
			data[dice.IntN(len(data))] = byte(dice.Uint32())
		}
		func() {
			defer func() {
				if p := recover(); p != nil {
					panics[fmt.Sprint(p)]++
				}
			}()
			_, _ = readParquet(table, data)
		}()
	}
	for what, n := range panics {
		t.Errorf("%d times: panic: %.100s", n, what)
	}
}
