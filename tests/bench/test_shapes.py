"""The lists are those of the models that they are named after."""

from mps_ds.bench import shapes


def test_gpt2():
    model = shapes.gpt2()
    assert (len(model.shapes), model.elements) == (148, 124_439_808)


def test_llama_1b():
    model = shapes.llama_1b()
    assert (len(model.shapes), model.elements) == (146, 1_235_814_400)


def test_small():
    sizes = [shape[0] for shape in shapes.small().shapes]
    assert (len(sizes), min(sizes), max(sizes) <= 900) == (2000, 1, True)


def test_countable_lists_have_the_models_numbers_of_tensors():
    assert len(shapes.countable()[0].shapes) == len(shapes.gpt2().shapes)
