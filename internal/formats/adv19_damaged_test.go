package formats

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/gopercolator/percolator/internal/model"
)

// A damaged file is an error, and never a panic.
func TestDamagedParquet(t *testing.T) {
	t.Parallel()
	table := testTable()
	var b bytes.Buffer
	w := table.NewParquetWriter(&b)
	for i := range 50 {
		if _, err := w.Write(Row{fmt.Sprint("row ", i), []Cell{{"int", model.EncodeInt64(int64(i))}, {"string", []byte("text")}, {"bool", []byte{1}}, {"other", []byte("x")}}}); err != nil {
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
			n := 0
			for _, err := range table.ReadParquet(bytes.NewReader(data), int64(len(data))) {
				if n++; err != nil || n > 1000 {
					return
				}
			}
		}()
	}
	for what, n := range panics {
		t.Errorf("%d times: panic: %.100s", n, what)
	}
}
