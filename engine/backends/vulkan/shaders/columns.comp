#version 460
#extension GL_GOOGLE_include_directive : require
/* columns.comp: copies the rows of a part to their place in wide rows (JOIN), or from there. */
#include "common.glsl"

layout(constant_id = 1) const uint JOIN = 0;

layout(push_constant, scalar) uniform Push
{
    Floats wide, part;
    uint count; /* numbers of the part */
    uint wide_width, width, first;
};

void main()
{
    FOR_EACH_ELEMENT(i, count)
    {
        const uint at = i / width * wide_width + first + i % width;

        if (JOIN != 0)
            wide.at[at] = part.at[i];
        else
            part.at[i] = wide.at[at];
    }
}
