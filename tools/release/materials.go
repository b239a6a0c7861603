package main

import (
	"context"
	"debug/buildinfo"
	"io"

	"github.com/CycloneDX/cyclonedx-go"
)

// billOfMaterials writes what is in each Linux program, as CycloneDX: the modules that the program says it was built
// from, not those that go.mod would allow.
func (r release) billOfMaterials(context.Context) error {
	for _, p := range platforms {
		if p.os != "linux" {
			continue
		}
		info, err := buildinfo.ReadFile(r.built(p))
		if err != nil {
			return err
		}
		components := []cyclonedx.Component{library("std", info.GoVersion)}
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			components = append(components, library(m.Path, m.Version))
		}
		bom := cyclonedx.NewBOM()
		bom.Metadata = &cyclonedx.Metadata{
			Timestamp: r.at.Format("2006-01-02T15:04:05Z"),
			Component: &cyclonedx.Component{
				Type: cyclonedx.ComponentTypeApplication, Name: "skald", Version: r.version,
				BOMRef:     "pkg:golang/" + info.Main.Path + "@v" + r.version,
				PackageURL: "pkg:golang/" + info.Main.Path + "@v" + r.version,
				Licenses:   &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}},
			},
		}
		bom.Components = &components
		name := r.path("skald_" + r.version + "_" + p.os + "_" + p.arch + ".cdx.json")
		err = create(name, func(w io.Writer) error {
			return cyclonedx.NewBOMEncoder(w, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func library(path, version string) cyclonedx.Component {
	at := "pkg:golang/" + path + "@" + version
	return cyclonedx.Component{
		Type: cyclonedx.ComponentTypeLibrary, Name: path, Version: version, BOMRef: at, PackageURL: at,
	}
}
