//! Measures times of the sim: building worlds, decoding and encoding SOAP, reading properties,
//! searching, and delivering one change to a filter over 10,000 machines. The client calls the sim
//! in process with SOAP bytes, so that all times but those of building include decoding and
//! encoding.

#![allow(missing_docs, reason = "criterion's macros generate functions without docs")]

use benches::{Bench, envelope, read_machine, runtime};
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use sim::VIRTUAL_EPOCH;
use sim::world::{Command, Topology};

fn building(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("build a world");
    group.sample_size(10);
    for machines in [1_000, 10_000, 100_000] {
        group.bench_function(format!("{machines} machines"), |bencher| {
            let topology = Topology { registered: false, ..Topology::zones(3).machines(machines) };
            bencher.iter_batched(
                || topology.clone(),
                |topology| topology.build(VIRTUAL_EPOCH, 0),
                BatchSize::PerIteration,
            );
        });
    }
}

fn reading(criterion: &mut Criterion) {
    let runtime = runtime();
    let mut group = criterion.benchmark_group("RetrievePropertiesEx of one machine");
    for machines in [1_000, 10_000] {
        let bench = runtime.block_on(Bench::new(machines));
        let few = ["name", "runtime.powerState", "guest.ipAddress"];
        let whole = ["config", "summary", "guest"];
        group.bench_function(format!("three leaves, {machines} machines"), |bencher| {
            bencher.iter(|| runtime.block_on(bench.call(read_machine("vm-100", &few))));
        });
        group.bench_function(format!("config, summary, guest, {machines} machines"), |bencher| {
            bencher.iter(|| runtime.block_on(bench.call(read_machine("vm-100", &whole))));
        });
    }
}

/// Measures decoding and encoding of SOAP: a call with little work, a long request, a long answer.
fn coding(criterion: &mut Criterion) {
    let runtime = runtime();
    let bench = runtime.block_on(Bench::new(1_000));
    let mut group = criterion.benchmark_group("SOAP");
    let nothing = envelope(
        r#"<CurrentTime xmlns="urn:vim25"><_this type="ServiceInstance">ServiceInstance</_this></CurrentTime>"#,
    );
    group.bench_function("decode and encode, CurrentTime", |bencher| {
        bencher.iter(|| runtime.block_on(bench.call(nothing.clone())));
    });
    let nowhere: String = (0..1_000)
        .map(|n| {
            format!(r#"<objectSet><obj type="VirtualMachine">vm-{}</obj></objectSet>"#, 900_000 + n)
        })
        .collect();
    let long = |objects: &str, paths: &str| {
        envelope(&format!(
            r#"<RetrieveProperties xmlns="urn:vim25"><_this type="PropertyCollector">propertyCollector</_this><specSet><propSet><type>VirtualMachine</type>{paths}</propSet>{objects}<reportMissingObjectsInResults>true</reportMissingObjectsInResults></specSet></RetrieveProperties>"#
        ))
    };
    let request = long(&nowhere, "<pathSet>name</pathSet>");
    group.bench_function("decode 1,000 references", |bencher| {
        bencher.iter(|| runtime.block_on(bench.call(request.clone())));
    });
    let everyone: String = bench.sim.world().read(|world| {
        let vc = world.vcenter("vc0").expect("the topology has a vCenter");
        let references = vc.inventory.machines().map(|(id, _, _)| id.to_string());
        references
            .map(|id| format!(r#"<objectSet><obj type="VirtualMachine">{id}</obj></objectSet>"#))
            .collect()
    });
    let request = long(
        &everyone,
        "<pathSet>config</pathSet><pathSet>summary</pathSet><pathSet>guest</pathSet>",
    );
    group.bench_function("encode config, summary, guest of 1,000 machines", |bencher| {
        bencher.iter(|| runtime.block_on(bench.call(request.clone())));
    });
}

fn searching(criterion: &mut Criterion) {
    let runtime = runtime();
    let mut group = criterion.benchmark_group("FindByUuid");
    for machines in [1_000, 10_000] {
        let bench = runtime.block_on(Bench::new(machines));
        let uuid = bench.sim.world().read(|world| {
            let vc = world.vcenter("vc0").expect("the topology has a vCenter");
            let mut all = vc.inventory.machines();
            all.nth(500).and_then(|(_, _, machine)| machine.config.uuid)
        });
        let uuid = uuid.expect("machine 500 has a UUID");
        let request = envelope(&format!(
            r#"<FindByUuid xmlns="urn:vim25"><_this type="SearchIndex">SearchIndex</_this><uuid>{uuid}</uuid><vmSearch>true</vmSearch></FindByUuid>"#
        ));
        group.bench_function(format!("{machines} machines"), |bencher| {
            bencher.iter(|| runtime.block_on(bench.call(request.clone())));
        });
    }
}

/// Measures a change of one machine and its delivery to a client whose filter has 10,000 machines.
fn delivering(criterion: &mut Criterion) {
    let runtime = runtime();
    let bench = runtime.block_on(Bench::new(10_000));
    let between = |text: &str, from: &str, to: &str| -> String {
        let start = text.find(from).expect("the answer has it") + from.len();
        let end = text[start..].find(to).expect("the answer has it") + start;
        text[start..end].to_owned()
    };
    let wait = |version: &str| {
        envelope(&format!(
            r#"<WaitForUpdatesEx xmlns="urn:vim25"><_this type="PropertyCollector">propertyCollector</_this><version>{version}</version><options><maxObjectUpdates>20000</maxObjectUpdates></options></WaitForUpdatesEx>"#
        ))
    };
    let mut version = runtime.block_on(async {
        let view = envelope(
            r#"<CreateContainerView xmlns="urn:vim25"><_this type="ViewManager">ViewManager</_this><container type="Folder">group-d1</container><type>VirtualMachine</type><recursive>true</recursive></CreateContainerView>"#,
        );
        let view = between(&bench.text(view).await, r#"type="ContainerView">"#, "<");
        let filter = envelope(&format!(
            r#"<CreateFilter xmlns="urn:vim25"><_this type="PropertyCollector">propertyCollector</_this><spec><propSet><type>VirtualMachine</type><pathSet>guest.net</pathSet><pathSet>runtime.powerState</pathSet></propSet><objectSet><obj type="ContainerView">{view}</obj><skip>true</skip><selectSet xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="TraversalSpec"><type>ContainerView</type><path>view</path></selectSet></objectSet></spec><partialUpdates>false</partialUpdates></CreateFilter>"#
        ));
        bench.text(filter).await;
        between(&bench.text(wait("")).await, "<version>", "<")
    });
    let mut last = 0_u8;
    criterion.bench_function("one change, ten thousand watched", |bencher| {
        bencher.iter(|| {
            last = last.wrapping_add(1);
            let address = std::net::Ipv4Addr::new(10, 200, 0, last);
            let command = Command::SetAddresses {
                machine: "node-5000".into(),
                addresses: vec![vec![address.into()]],
            };
            bench.sim.apply(command).expect("the machine exists");
            let text = runtime.block_on(bench.text(wait(&version)));
            version = between(&text, "<version>", "<");
        });
    });
}

criterion_group!(benches, building, coding, reading, searching, delivering);
criterion_main!(benches);
