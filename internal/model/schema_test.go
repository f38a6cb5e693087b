package model

import (
	"encoding/json"
	"testing"
)

// Versions that know no journal cannot take part where there is one (J9): those that look at the
// format know 1, and those from before formats cannot decode the tables.
func TestFormerVersionsRefuseASchemaWithAJournal(t *testing.T) {
	t.Parallel()
	for _, disabled := range []bool{false, true} {
		b := EncodeSchema(&Schema{Tables: []Table{{Name: "t"}}, DisableJournal: disabled})
		var stored struct{ Format int }
		if err := json.Unmarshal(b, &stored); err != nil || stored.Format <= 1 != disabled {
			t.Errorf("%s: format %d, %v", b, stored.Format, err)
		}
		var before struct{ Tables []Table }
		if err := json.Unmarshal(b, &before); err == nil != disabled {
			t.Errorf("%s: a version from before formats gets %v, %v", b, before.Tables, err)
		}
		if s, err := DecodeSchema(b); err != nil || s.DisableJournal != disabled || len(s.Tables) != 1 {
			t.Errorf("%s: decoded to %+v, %v", b, s, err)
		}
	}
}
