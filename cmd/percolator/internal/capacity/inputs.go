// Package capacity computes what a workload needs of Bigtable, of the oracle and of money, and
// which limit it reaches first. It is arithmetic: it asks no server and knows no clock.
package capacity

import (
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// Input is a number that the model computes with, and where it comes from.
type Input struct {
	Value  *float64 `json:"value,omitempty"` // nil: unknown
	Unit   string   `json:"unit,omitempty"`
	Source string   `json:"source,omitempty"`
	Read   string   `json:"read,omitempty"` // the date of a look at the source
}

// Inputs are all numbers by name. inputs.yaml lists the names.
type Inputs map[string]Input

//go:embed inputs.yaml
var embedded []byte

// DefaultInputs are those that this package brings along.
func DefaultInputs() (Inputs, error) {
	in := Inputs{}
	return in, yaml.UnmarshalStrict(embedded, &in)
}

// Replace takes over the entries of a YAML file. It refuses names that the model does not know.
func (in Inputs) Replace(text []byte) error {
	given := Inputs{}
	if err := yaml.UnmarshalStrict(text, &given); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if err := in.replace(name, given[name]); err != nil {
			return err
		}
	}
	return nil
}

// Set replaces a value by a number.
func (in Inputs) Set(name, number string) error {
	value, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return err
	}
	return in.replace(name, Input{Value: &value, Unit: in[name].Unit, Source: "given"})
}

func (in Inputs) replace(name string, by Input) error {
	if _, known := in[name]; !known {
		return fmt.Errorf("no input is called %q: there are %s", name, strings.Join(slices.Sorted(maps.Keys(in)), ", "))
	}
	if by.Value != nil && (!(*by.Value > 0) || math.IsInf(*by.Value, 0)) {
		return fmt.Errorf("%s: %v is not above 0", name, *by.Value)
	}
	if by.Value != nil && *by.Value > 1 && strings.HasSuffix(name, "Share") {
		return fmt.Errorf("%s: %v is more than the whole, 1", name, *by.Value)
	}
	in[name] = by
	return nil
}

// get is a value that the model cannot do without once complete has looked; of a price NaN if it is
// unknown, which then everything that it enters is.
func (in Inputs) get(name string) float64 {
	if v := in[name].Value; v != nil {
		return *v
	}
	return math.NaN()
}

// size is how many rows of the speeds a row of the workload counts as.
func (in Inputs) size(w Workload) float64 { return max(1, w.RowBytes/in.get("speedBytes")) }

// complete reports which values are missing that are no prices.
func (in Inputs) complete() error {
	var missing []error
	for _, name := range slices.Sorted(maps.Keys(in)) {
		if in[name].Value == nil && name != "nodeQuota" && !strings.HasSuffix(name, "Price") {
			missing = append(missing, fmt.Errorf("the input %s has no value", name))
		}
	}
	return errors.Join(missing...)
}
