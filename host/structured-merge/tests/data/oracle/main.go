// Writes known results of Kubernetes' own code, one case a line.
package main

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/kube-openapi/pkg/validation/spec"
	defaults "k8s.io/kubernetes/pkg/apis/apps/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

type object = map[string]any

var r = rand.New(rand.NewSource(1))

func pick[T any](options ...T) T { return options[r.Intn(len(options))] }
func maybe(percent int) bool     { return r.Intn(100) < percent }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

type identity struct{}

func (identity) Convert(in, out, context interface{}) error { return fmt.Errorf("unused") }
func (identity) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}
func (identity) ConvertFieldLabel(_ schema.GroupVersionKind, _, _ string) (string, string, error) {
	return "", "", fmt.Errorf("unused")
}
func (identity) Default(runtime.Object) {}
func (identity) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	return emptyOf(kind), nil
}

func emptyOf(kind schema.GroupVersionKind) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: object{}}
	if kind.Kind == "Deployment" {
		u.Object = toMap(&appsv1.Deployment{})
	}
	u.SetGroupVersionKind(kind)
	return u
}

func toMap(v any) object {
	var out object
	if err := json.Unmarshal(must(json.Marshal(v)), &out); err != nil {
		panic(err)
	}
	return must(roundNumbers(out), nil).(object)
}

// roundNumbers makes int64 of whole floats, as the API's decoder does.
func roundNumbers(v any) any {
	switch v := v.(type) {
	case object:
		for k := range v {
			v[k] = roundNumbers(v[k])
		}
		return v
	case []any:
		for i := range v {
			v[i] = roundNumbers(v[i])
		}
		return v
	case float64:
		if v == float64(int64(v)) {
			return int64(v)
		}
		return v
	}
	return v
}

func defaulted(o object) object {
	var d appsv1.Deployment
	if err := json.Unmarshal(must(json.Marshal(o)), &d); err != nil {
		panic(fmt.Sprint(err, o))
	}
	defaults.SetObjectDefaults_Deployment(&d)
	return toMap(&d)
}

func clone(o object) object { return toMap(o) }

func newManager(converter managedfields.TypeConverter, kind schema.GroupVersionKind, subresource string) *managedfields.FieldManager {
	reset := fieldpath.NewSet(fieldpath.MakePathOrDie("status"))
	if subresource == "status" {
		reset = fieldpath.NewSet(fieldpath.MakePathOrDie("spec"), fieldpath.MakePathOrDie("metadata", "labels"))
	}
	version := fieldpath.APIVersion(kind.GroupVersion().String())
	filters := map[fieldpath.APIVersion]fieldpath.Filter{version: fieldpath.NewExcludeSetFilter(reset)}
	return must(managedfields.NewDefaultFieldManager(converter, identity{}, identity{}, identity{}, kind, kind.GroupVersion(), subresource, filters))
}

func emit(c object) {
	fmt.Println(string(must(json.Marshal(c))))
}

func timeless(entries []metav1.ManagedFieldsEntry) any {
	out := []any{}
	for _, e := range entries {
		e.Time = nil
		out = append(out, toMap(e))
	}
	return out
}

// ---- random manifests

func labels() object {
	out := object{}
	for _, k := range []string{"app", "tier", "x"} {
		if maybe(50) {
			out[k] = pick("a", "b", "")
		}
	}
	return out
}

func quantityText() string {
	return pick("1", "1000m", "0.1", "100m", "1Gi", "1024Mi", "1.5Gi", "2e3", "0.0001", "500k", "128974848", "1u")
}

func container(name string) object {
	c := object{"name": name}
	if maybe(80) {
		c["image"] = pick("nginx", "nginx:latest", "nginx:1.2", "reg:5000/x", "reg:5000/x:1")
	}
	if maybe(40) {
		ports := []any{}
		for _, p := range r.Perm(3) {
			if maybe(50) {
				port := object{"containerPort": int64(80 + p)}
				if maybe(50) {
					port["protocol"] = pick("TCP", "UDP")
				}
				if maybe(30) {
					port["name"] = pick("web", "api")
				}
				ports = append(ports, port)
			}
		}
		c["ports"] = ports
	}
	if maybe(40) {
		env := []any{}
		for _, p := range r.Perm(4) {
			if maybe(50) {
				e := object{"name": []string{"A", "B", "C", "D"}[p]}
				switch r.Intn(3) {
				case 0:
					e["value"] = pick("1", "2", "")
				case 1:
					e["valueFrom"] = object{"fieldRef": object{"fieldPath": pick("metadata.name", "metadata.uid")}}
				case 2:
					e["valueFrom"] = object{"resourceFieldRef": object{"resource": "limits.cpu"}}
				}
				env = append(env, e)
			}
		}
		c["env"] = env
	}
	if maybe(30) {
		c["args"] = pick([]any{"a"}, []any{"a", "b"}, []any{})
	}
	if maybe(30) {
		res := object{}
		if maybe(60) {
			res["limits"] = object{"cpu": quantityText(), "memory": quantityText()}
		}
		if maybe(60) {
			res["requests"] = object{"cpu": quantityText()}
		}
		c["resources"] = res
	}
	if maybe(20) {
		c["livenessProbe"] = pick(
			object{"httpGet": object{"port": pick[any](int64(80), "web")}},
			object{"tcpSocket": object{"port": int64(1)}, "periodSeconds": int64(pick(0, 5))},
			object{"exec": object{"command": []any{"x"}}},
			object{"grpc": object{"port": int64(9)}})
	}
	if maybe(20) {
		c["imagePullPolicy"] = pick("Always", "Never", "")
	}
	if maybe(20) {
		c["stdin"] = maybe(50)
	}
	if maybe(20) {
		c["volumeMounts"] = []any{object{"name": "v", "mountPath": pick("/a", "/b")}}
	}
	if maybe(15) {
		c["securityContext"] = pick(object{}, object{"runAsUser": int64(0)}, object{"capabilities": object{"add": []any{"X"}}})
	}
	return c
}

func containers(min int) []any {
	out := []any{}
	for i, p := range r.Perm(3) {
		if i < min || maybe(35) {
			out = append(out, container([]string{"nginx", "side", "third"}[p]))
		}
	}
	return out
}

func podSpec(min int) object {
	p := object{"containers": containers(min)}
	if maybe(15) {
		p["initContainers"] = containers(1)
	}
	if maybe(30) {
		vs := []any{}
		for _, i := range r.Perm(3) {
			if maybe(60) {
				v := object{"name": []string{"v", "w", "z"}[i]}
				switch r.Intn(6) {
				case 0:
					v["emptyDir"] = pick(object{}, object{"sizeLimit": quantityText()})
				case 1:
					v["configMap"] = object{"name": pick("a", "b"), "items": []any{object{"key": "k", "path": "p"}}}
				case 2:
					v["secret"] = object{"secretName": "s"}
				case 3:
					v["projected"] = object{"sources": []any{object{"serviceAccountToken": object{"path": "t"}}}}
				case 4:
					v["hostPath"] = object{"path": "/x"}
				}
				vs = append(vs, v)
			}
		}
		p["volumes"] = vs
	}
	if maybe(20) {
		p["nodeSelector"] = labels()
	}
	if maybe(20) {
		p["tolerations"] = []any{object{"key": pick("a", "b"), "operator": "Exists"}}
	}
	if maybe(15) {
		p["topologySpreadConstraints"] = []any{object{"topologyKey": "zone", "maxSkew": int64(pick(1, 2)), "whenUnsatisfiable": pick("DoNotSchedule", "ScheduleAnyway")}}
	}
	if maybe(15) {
		p["imagePullSecrets"] = pick([]any{object{"name": "a"}}, []any{object{"name": "b"}, object{"name": "a"}})
	}
	if maybe(15) {
		p["hostNetwork"] = maybe(50)
	}
	if maybe(10) {
		p["securityContext"] = pick(object{}, object{"runAsNonRoot": true})
	}
	if maybe(10) {
		p["terminationGracePeriodSeconds"] = int64(pick(0, 30, 5))
	}
	if maybe(10) {
		p["affinity"] = object{"nodeAffinity": object{"preferredDuringSchedulingIgnoredDuringExecution": []any{object{"weight": int64(1), "preference": object{"matchExpressions": []any{object{"key": "a", "operator": "Exists"}}}}}}}
	}
	return p
}

func deployment(min int) object {
	spec := object{}
	template := object{"spec": podSpec(min)}
	if maybe(80) {
		template["metadata"] = object{"labels": labels()}
	}
	spec["template"] = template
	if maybe(80) {
		spec["selector"] = object{"matchLabels": object{"app": pick("a", "b")}}
	}
	if maybe(50) {
		spec["replicas"] = int64(r.Intn(3))
	}
	if maybe(20) {
		spec["paused"] = maybe(50)
	}
	if maybe(25) {
		spec["strategy"] = pick(object{"type": "Recreate"}, object{"type": "RollingUpdate"}, object{"rollingUpdate": object{"maxSurge": pick[any](int64(1), "10%")}}, object{})
	}
	metadata := object{"name": "web", "namespace": "default"}
	if maybe(50) {
		metadata["labels"] = labels()
	}
	if maybe(30) {
		metadata["annotations"] = labels()
	}
	if maybe(25) {
		metadata["finalizers"] = pick([]any{"a/b"}, []any{"c/d", "a/b"}, []any{"c/d"})
	}
	if maybe(30) {
		refs := []any{}
		for _, uid := range r.Perm(2) {
			if maybe(70) {
				refs = append(refs, object{"apiVersion": "v1", "kind": "Foo", "name": "f", "uid": fmt.Sprint(uid), "controller": maybe(50)})
			}
		}
		metadata["ownerReferences"] = refs
	}
	return object{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}
}

var crd = `{"type":"object","properties":{
 "spec":{"type":"object","properties":{
  "a":{"type":"string"},"n":{"type":"integer"},"b":{"type":"boolean"},
  "port":{"x-kubernetes-int-or-string":true},
  "set":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},
  "list":{"type":"array","items":{"type":"object","properties":{"x":{"type":"integer"}}}},
  "map":{"type":"object","additionalProperties":{"type":"object","properties":{"y":{"type":"string"}}}},
  "atom":{"type":"object","x-kubernetes-map-type":"atomic","properties":{"p":{"type":"string"},"q":{"type":"string"}}},
  "items":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k","l"],
   "items":{"type":"object","properties":{"k":{"type":"string"},"l":{"type":"string","default":"d"},"v":{"type":"integer"},
    "sub":{"type":"object","properties":{"s":{"type":"string"}}}}}},
  "free":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}},
 "status":{"type":"object","properties":{"ready":{"type":"integer"},
  "conditions":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["type"],
   "items":{"type":"object","properties":{"type":{"type":"string"},"status":{"type":"string"}}}}}}}}`

func custom() object {
	spec := object{}
	if maybe(50) {
		spec["a"] = pick("x", "y", "")
	}
	if maybe(40) {
		spec["n"] = int64(r.Intn(3))
	}
	if maybe(30) {
		spec["port"] = pick[any](int64(1), "1", "http")
	}
	if maybe(40) {
		s := []any{}
		for _, i := range r.Perm(4) {
			if maybe(50) {
				s = append(s, fmt.Sprint("s", i))
			}
		}
		spec["set"] = s
	}
	if maybe(30) {
		spec["list"] = pick([]any{object{"x": int64(1)}}, []any{}, []any{object{"x": int64(1)}, object{}})
	}
	if maybe(40) {
		m := object{}
		for _, k := range []string{"i", "j"} {
			if maybe(50) {
				m[k] = pick(object{}, object{"y": "1"}, object{"y": "2"})
			}
		}
		spec["map"] = m
	}
	if maybe(30) {
		spec["atom"] = pick(object{"p": "1"}, object{"p": "1", "q": "2"}, object{})
	}
	if maybe(60) {
		s := []any{}
		for _, i := range r.Perm(4) {
			if maybe(55) {
				it := object{"k": fmt.Sprint("k", i)}
				if maybe(30) {
					it["l"] = pick("d", "e")
				}
				if maybe(50) {
					it["v"] = int64(r.Intn(2))
				}
				if maybe(40) {
					it["sub"] = pick(object{}, object{"s": "1"}, object{"s": "2"})
				}
				s = append(s, it)
			}
		}
		spec["items"] = s
	}
	if maybe(40) {
		spec["free"] = pick(object{}, object{"l": []any{"a"}}, object{"l": []any{"a", "b"}, "m": object{"z": int64(1)}}, object{"m": int64(1)}, object{"m": object{}}, object{"l": object{"a": "b"}})
	}
	o := object{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": object{"name": "t", "namespace": "default"}, "spec": spec}
	if maybe(40) {
		o["metadata"].(object)["labels"] = labels()
	}
	if maybe(30) {
		o["status"] = object{"ready": int64(r.Intn(2)), "conditions": []any{object{"type": pick("A", "B"), "status": "True"}}}
	}
	return o
}

// ---- sequences of writes

func sequence(name string, converter managedfields.TypeConverter, kind schema.GroupVersionKind, generate func() object, store func(object) object, steps int) {
	live := emptyOf(kind)
	created := false
	for step := 0; step < steps; step++ {
		manager := pick("one", "two", "three")
		switch {
		case maybe(10):
			manager = "kubectl"
		case maybe(20):
			manager = fmt.Sprint("many-", r.Intn(12))
		}
		if created && maybe(4) {
			live.SetManagedFields(nil)
		}
		subresource := ""
		if maybe(15) {
			subresource = "status"
		}
		fm := newManager(converter, kind, subresource)
		input := object{"schema": name, "manager": manager, "subresource": subresource}
		if created {
			input["live"] = clone(live.Object)
		}
		config := generate()
		if maybe(65) {
			input["op"] = "apply"
			force := maybe(60)
			// One fault at most: of several the real code reports those that a random map order shows first.
			if name == "thing" && maybe(12) {
				switch spec := config["spec"].(object); r.Intn(5) {
				case 0:
					spec["unknown"] = "x"
				case 1:
					spec["a"] = pick[any](int64(1), true, []any{"x"}, object{"x": "y"})
				case 2:
					spec["set"] = []any{"q", "q"}
				case 3:
					spec["n"] = pick[any]("1", object{})
				case 4:
					spec["items"] = pick[any]([]any{object{"v": int64(1)}, nil}, []any{"x"}, "x", object{})
				}
			}
			input["config"] = config
			input["force"] = force
			out, err := fm.Apply(live.DeepCopy(), &unstructured.Unstructured{Object: clone(config)}, manager, force)
			if err != nil {
				input["error"] = err.Error()
				emit(input)
				continue
			}
			u := out.(*unstructured.Unstructured)
			entries := u.GetManagedFields()
			input["managed"] = timeless(entries)
			u.SetManagedFields(nil)
			input["object"] = clone(u.Object)
			emit(input)
			next := store(clone(u.Object))
			live = &unstructured.Unstructured{Object: next}
			live.SetManagedFields(entries)
			created = true
		} else {
			input["op"] = "update"
			after := config
			if created && maybe(60) {
				// a patch: the live object with one part replaced
				after = clone(live.Object)
				if after["spec"] == nil {
					after["spec"] = object{}
				}
				for k := range config["spec"].(object) {
					if maybe(50) {
						after["spec"].(object)[k] = config["spec"].(object)[k]
					}
				}
			}
			if maybe(10) {
				annotations, _ := after["metadata"].(object)["annotations"].(object)
				if annotations == nil {
					annotations = object{}
				}
				annotations["kubectl.kubernetes.io/last-applied-configuration"] = string(must(json.Marshal(config)))
				after["metadata"].(object)["annotations"] = annotations
			}
			after = store(clone(after))
			after["apiVersion"], after["kind"] = kind.GroupVersion().String(), kind.Kind
			u := &unstructured.Unstructured{Object: clone(after)}
			u.SetManagedFields(nil)
			input["after"] = clone(u.Object)
			out, err := fm.Update(live.DeepCopy(), u, manager)
			if err != nil {
				panic(err)
			}
			live = out.(*unstructured.Unstructured)
			input["managed"] = timeless(live.GetManagedFields())
			emit(input)
			created = true
		}
	}
}

func dropNulls(v any) any {
	switch v := v.(type) {
	case object:
		for k, x := range v {
			if x == nil {
				delete(v, k)
			} else {
				v[k] = dropNulls(x)
			}
		}
		return v
	case []any:
		for i := range v {
			v[i] = dropNulls(v[i])
		}
		return v
	}
	return v
}

func main() {
	count := 60
	if len(os.Args) > 2 {
		fmt.Sscan(os.Args[2], &count)
	}
	if len(os.Args) > 3 {
		var seed int64
		fmt.Sscan(os.Args[3], &seed)
		r = rand.New(rand.NewSource(seed))
	}
	var doc struct {
		Components struct {
			Schemas map[string]*spec.Schema
		}
	}
	if err := json.Unmarshal(must(os.ReadFile(os.Args[1])), &doc); err != nil {
		panic(err)
	}
	builtin := must(managedfields.NewTypeConverter(doc.Components.Schemas, false))

	var schemaValue object
	if err := json.Unmarshal([]byte(crd), &schemaValue); err != nil {
		panic(err)
	}
	withMeta := clone(schemaValue)
	props := withMeta["properties"].(object)
	props["apiVersion"] = object{"type": "string"}
	props["kind"] = object{"type": "string"}
	props["metadata"] = object{"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}
	withMeta["x-kubernetes-group-version-kind"] = []any{object{"group": "example.com", "version": "v1", "kind": "Thing"}}
	var thing spec.Schema
	if err := json.Unmarshal(must(json.Marshal(withMeta)), &thing); err != nil {
		panic(err)
	}
	models := map[string]*spec.Schema{"com.example.v1.Thing": &thing}
	for name, s := range doc.Components.Schemas {
		models[name] = s
	}
	things := must(managedfields.NewTypeConverter(models, false))
	emit(object{"op": "schema", "schema": schemaValue})

	for i := 0; i < 3*count; i++ {
		in := deployment(1)
		emit(object{"op": "default", "in": in, "out": defaulted(clone(in))})
	}
	for i := 0; i < 10*count; i++ {
		text := fmt.Sprintf("%s%d%s%s", pick("", "", "-", "+"), r.Intn(5000), pick("", "", ".5", ".25", ".001", ".", ".0000000001"),
			pick("", "", "m", "u", "n", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti", "e3", "e-3", "E2", "e0", "mm", "x"))
		c := object{"op": "quantity", "in": text}
		if q, err := resource.ParseQuantity(text); err != nil {
			c["error"] = err.Error()
		} else {
			var fresh resource.Quantity
			if err := json.Unmarshal(must(json.Marshal(q.String())), &fresh); err != nil {
				panic(err)
			}
			c["out"] = q.String()
		}
		emit(c)
	}
	appsKind := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	thingKind := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"}
	for i := 0; i < count; i++ {
		sequence("thing", things, thingKind, custom, func(o object) object { return dropNulls(o).(object) }, 6)
		if i%10 == 0 {
			sequence("thing", things, thingKind, custom, func(o object) object { return dropNulls(o).(object) }, 30)
		}
		if i%2 == 0 {
			sequence("deployment", builtin, appsKind, func() object { return deployment(0) }, func(o object) object { return defaulted(o) }, 6)
		}
	}
	for i := 0; i < 3*count; i++ {
		original, modified := deployment(1), deployment(1)
		live := defaulted(clone(deployment(1)))
		if maybe(50) {
			live = defaulted(clone(original))
		}
		meta := must(strategicpatch.NewPatchMetaFromStruct(appsv1.Deployment{}))
		patch, err := strategicpatch.CreateThreeWayMergePatch(must(json.Marshal(original)), must(json.Marshal(modified)), must(json.Marshal(live)), meta, true)
		if err != nil {
			continue
		}
		var p object
		if err := json.Unmarshal(patch, &p); err != nil {
			panic(err)
		}
		c := object{"op": "strategic", "live": live, "patch": roundNumbers(clone(p))}
		target := live
		if maybe(25) {
			target = defaulted(clone(deployment(1)))
			c["live"] = target
		}
		out, err := strategicpatch.StrategicMergeMapPatch(clone(target), clone(p), appsv1.Deployment{})
		if err != nil {
			c["error"] = err.Error()
		} else {
			c["out"] = roundNumbers(clone(out))
		}
		emit(c)
	}
}
