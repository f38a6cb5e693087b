package layout

import "encoding/json"

// JSON is how state is stored that has no form of its own: names, numbers, and times of a year up
// to 9999, which always marshal.
func JSON(state any) []byte {
	b, err := json.Marshal(state)
	if err != nil {
		panic(err)
	}
	return b
}
