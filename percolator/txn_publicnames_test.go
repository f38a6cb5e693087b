package percolator_test

import (
	"reflect"
	"testing"

	"github.com/gopercolator/percolator/percolator"
)

// What a program holds of a transaction or a snapshot has no fields: with tx.Snap or s.TS at hand
// any caller moves a snapshot past the checks of AsOf, the safepoint and the start timestamp.
func TestNoFieldsOfTransactionsAndSnapshots(t *testing.T) {
	t.Parallel()
	for _, v := range []any{percolator.Client{}, percolator.Txn{}, percolator.Snapshot{}} {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(v)) {
			if f.IsExported() {
				t.Errorf("%T has the field %s", v, f.Name)
			}
		}
	}
}
