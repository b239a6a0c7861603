package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
)

// chart packs the Helm chart, with the version of the release for itself and for the image that it starts.
func (r release) chart(context.Context) error {
	dir := r.source("deploy", "chart", "skald")
	files, err := below(dir)
	if err != nil {
		return err
	}
	var kept []packed
	for _, f := range files {
		if strings.HasPrefix(f.name, "ci/") { // values for tests
			continue
		}
		if f.name == "Chart.yaml" {
			if f.content, err = f.read(); err != nil {
				return err
			}
			f.content, f.from = numberedChart(f.content, r.version), ""
			if !bytes.Contains(f.content, []byte("\nappVersion: "+r.version+"\n")) {
				return fmt.Errorf("%s has no lines version and appVersion", dir)
			}
		}
		kept = append(kept, f)
	}
	name := r.path("skald-" + r.version) // helm's way to name it
	if err := tarGz(name, "skald", kept, r.at); err != nil {
		return err
	}
	return os.Rename(name+".tar.gz", name+".tgz")
}

var chartVersions = regexp.MustCompile(`(?m)^(version|appVersion): .*$`)

func numberedChart(text []byte, version string) []byte {
	return chartVersions.ReplaceAll(text, []byte("${1}: "+version))
}
