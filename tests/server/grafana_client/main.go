// Asks a server what Grafana's data source for Pyroscope asks, by the client that it uses (Pyroscope's
// own, over Connect), and prints the answers as one JSON object:
//
//	grafana URL binary|json TYPE SELECTOR START_MS END_MS
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"

	"connectrpc.com/connect"
	querierv1 "github.com/grafana/pyroscope/api/gen/proto/go/querier/v1"
	"github.com/grafana/pyroscope/api/gen/proto/go/querier/v1/querierv1connect"
	typesv1 "github.com/grafana/pyroscope/api/gen/proto/go/types/v1"
)

func fail(what string, err error) {
	fmt.Fprintf(os.Stderr, "%s: %v\n", what, err)
	os.Exit(1)
}

func number(text string) int64 {
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		fail("time", err)
	}
	return value
}

func main() {
	url, encoding, kind, selector := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	start, end := number(os.Args[5]), number(os.Args[6])
	options := []connect.ClientOption{}
	if encoding == "json" {
		options = append(options, connect.WithProtoJSON())
	}
	client := querierv1connect.NewQuerierServiceClient(http.DefaultClient, url, options...)
	ctx := context.Background()
	out := map[string]any{}

	types, err := client.ProfileTypes(ctx, connect.NewRequest(
		&querierv1.ProfileTypesRequest{Start: start, End: end}))
	if err != nil {
		fail("ProfileTypes", err)
	}
	ids := []string{}
	for _, one := range types.Msg.ProfileTypes {
		ids = append(ids, one.ID)
	}
	out["types"] = ids

	names, err := client.LabelNames(ctx, connect.NewRequest(&typesv1.LabelNamesRequest{
		Matchers: []string{selector}, Start: start, End: end}))
	if err != nil {
		fail("LabelNames", err)
	}
	out["names"] = names.Msg.Names

	values, err := client.LabelValues(ctx, connect.NewRequest(&typesv1.LabelValuesRequest{
		Name: "version", Matchers: []string{selector}, Start: start, End: end}))
	if err != nil {
		fail("LabelValues", err)
	}
	out["versions"] = values.Msg.Names

	series, err := client.Series(ctx, connect.NewRequest(&querierv1.SeriesRequest{
		Matchers: []string{selector}, LabelNames: []string{"service_name", "version"},
		Start: start, End: end}))
	if err != nil {
		fail("Series", err)
	}
	sets := []map[string]string{}
	for _, set := range series.Msg.LabelsSet {
		labels := map[string]string{}
		for _, pair := range set.Labels {
			labels[pair.Name] = pair.Value
		}
		sets = append(sets, labels)
	}
	out["series"] = sets

	nodes := int64(100)
	stacks, err := client.SelectMergeStacktraces(ctx, connect.NewRequest(
		&querierv1.SelectMergeStacktracesRequest{ProfileTypeID: kind, LabelSelector: selector,
			Start: start, End: end, MaxNodes: &nodes}))
	if err != nil {
		fail("SelectMergeStacktraces", err)
	}
	graph := stacks.Msg.Flamegraph
	levels := [][]int64{}
	for _, level := range graph.GetLevels() {
		levels = append(levels, level.Values)
	}
	out["graph"] = map[string]any{"names": graph.GetNames(), "levels": levels,
		"total": graph.GetTotal(), "maxSelf": graph.GetMaxSelf()}

	lines, err := client.SelectSeries(ctx, connect.NewRequest(&querierv1.SelectSeriesRequest{
		ProfileTypeID: kind, LabelSelector: selector, Start: start, End: end, Step: 60,
		GroupBy: []string{"version"}}))
	if err != nil {
		fail("SelectSeries", err)
	}
	sums := map[string]float64{}
	for _, line := range lines.Msg.Series {
		for _, point := range line.Points {
			sums[line.Labels[0].Value] += point.Value
		}
	}
	out["sums"] = sums

	_, err = client.LabelNames(ctx, connect.NewRequest(&typesv1.LabelNamesRequest{
		Matchers: []string{"{version=~\"(\"}"}, Start: start, End: end}))
	out["error"] = connect.CodeOf(err).String()
	out["why"] = err.Error()

	if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
		fail("output", err)
	}
}
